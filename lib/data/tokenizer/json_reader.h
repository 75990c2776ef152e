// Reads the fields of a JSON document and reports the path of a field in error messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/json.h"

namespace fp {

using Json = nlohmann::json;

// Limits for files that contain a vocabulary.
constexpr JsonLimits kVocabularyJson = {.bytes = uint64_t{256} << 20};

// A value and its path from the root, such as "model.merges[3]". Copies are cheap. The document must outlive it.
class JsonValue {
 public:
  // The root of a document. `where` names it in errors and must outlive this object.
  JsonValue(const Json& value, const std::string& where) : value_(&value), where_(&where) {}

  const Json& json() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }

  // fail() throws DataError "<where>: <path>: <what>"; illegal() throws one that lists the legal values. need() calls
  // illegal() unless `ok`.
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void illegal(const std::string& legal) const;
  void need(bool ok, const std::string& legal) const {
    if (!ok) illegal(legal);
  }

  // Access to the fields of an object. at() requires the field; get() returns null where it is absent; only() throws
  // when a field has a name that is not listed.
  JsonValue at(const std::string& name) const;
  JsonValue get(const std::string& name) const;
  bool has(const std::string& name) const { return value_->is_object() && value_->contains(name); }
  void only(std::initializer_list<std::string_view> names) const;
  // Calls f(name, value) for every field. Throws DataError when the value is not an object.
  template <class F>
  void for_each_field(F&& f) const {
    need(value_->is_object(), "an object");
    for (const auto& [name, value] : value_->items()) f(name, JsonValue(value, *where_, path_ + "[\"" + name + "\"]"));
  }
  // Access to the elements of an array.
  size_t size() const { return value_->size(); }
  JsonValue operator[](size_t i) const;

  // Return the value as a type, or call illegal(). flag() returns `absent` for null.
  std::string text() const;
  bool flag(bool absent) const;
  int32_t id() const;  // a token id below kMaxTokenIds
  int64_t integer(int64_t least, int64_t most) const;
  // Returns the field "type" of an object; "" when it has none.
  std::string type() const;

 private:
  JsonValue(const Json& value, const std::string& where, std::string path)
      : value_(&value), where_(&where), path_(std::move(path)) {}

  const Json* value_;
  const std::string* where_;
  std::string path_;
};

}  // namespace fp
