// Reads the fields of a JSON document and knows where each stands, for error messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fp {

using Json = nlohmann::json;

// A value and its path from the root: "model.merges[3]". Copies are cheap; the document must outlive it.
class JsonValue {
 public:
  // `where` names the document.
  JsonValue(const Json& value, const std::string& where) : value_(&value), where_(&where) {}

  const Json& json() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }

  // DataError: "<where>: <path>: <what>; legal: ...".
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void illegal(const std::string& legal) const;
  void need(bool ok, const std::string& legal) const {
    if (!ok) illegal(legal);
  }

  // Of an object: the field, which must be there; the same, or null where it is absent; all names that may occur.
  JsonValue at(const std::string& name) const;
  JsonValue get(const std::string& name) const;
  bool has(const std::string& name) const { return value_->is_object() && value_->contains(name); }
  void only(std::initializer_list<std::string_view> names) const;
  // Calls f(name, value) for every field of an object, which it must be.
  template <class F>
  void for_each_field(F&& f) const {
    need(value_->is_object(), "an object");
    for (const auto& [name, value] : value_->items()) f(name, JsonValue(value, *where_, path_ + "[\"" + name + "\"]"));
  }
  // Of an array.
  size_t size() const { return value_->size(); }
  JsonValue operator[](size_t i) const;

  // The value as a type; illegal() otherwise. `absent` stands in for null.
  std::string text() const;
  bool flag(bool absent) const;
  int32_t id() const;  // a token id below kMaxTokenIds
  int64_t integer(int64_t least, int64_t most) const;
  // "type" of an object; "" when it has none.
  std::string type() const;

 private:
  JsonValue(const Json& value, const std::string& where, std::string path)
      : value_(&value), where_(&where), path_(std::move(path)) {}

  const Json* value_;
  const std::string* where_;
  std::string path_;
};

// DataError naming `where` when `text` is not JSON.
Json parse_json(std::string_view text, const std::string& where);

}  // namespace fp
