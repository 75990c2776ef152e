// Reads the keys of a Hugging Face JSON object, with errors that give the file, the key, its value and the legal
// values.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json_numbers.h"

namespace fp {

// Typed access to the keys of a JSON object. A null value counts as absent. A key that is absent and has no default, or
// has a value of the wrong type, is a DataError.
class HfKeys {
 public:
  // Entries of a list of numbers. Published models have a few hundred.
  static constexpr size_t kLongestList = 8192;

  HfKeys() = default;
  HfKeys(nlohmann::json object, std::string where, std::string prefix)
      : object_(std::move(object)), where_(std::move(where)), prefix_(std::move(prefix)) {}

  bool has(const std::string& key) const { return object_.contains(key) && !object_.at(key).is_null(); }

  bool empty() const { return object_.empty(); }
  // Whether the key is in the object, perhaps with the value null.
  bool given(const std::string& key) const { return object_.contains(key); }

  int64_t integer(const std::string& key, std::optional<int64_t> otherwise = {}) const {
    const nlohmann::json* v = find(key, otherwise.has_value(), "a whole number");
    if (v == nullptr) return *otherwise;
    if (!is_integer<int64_t>(*v, 0, 9'000'000'000'000'000)) refuse(key, "a whole number");
    return v->get<int64_t>();
  }
  double number(const std::string& key, std::optional<double> otherwise = {}) const {
    const nlohmann::json* v = find(key, otherwise.has_value(), "a number");
    if (v == nullptr) return *otherwise;
    if (!v->is_number() || !std::isfinite(v->get<double>())) refuse(key, "a finite number");
    return v->get<double>();
  }
  bool flag(const std::string& key, bool otherwise) const {
    const nlohmann::json* v = find(key, true, "");
    if (v != nullptr && !v->is_boolean()) refuse(key, "true or false");
    return v == nullptr ? otherwise : v->get<bool>();
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    const nlohmann::json* v = find(key, true, "");
    if (v != nullptr && !v->is_string()) refuse(key, "text");
    return v == nullptr ? otherwise : v->get<std::string>();
  }
  std::vector<double> numbers(const std::string& key) const {
    const nlohmann::json* v = find(key, false, "a list of numbers");
    if (!v->is_array()) refuse(key, "a list of numbers");
    if (v->size() > kLongestList)
      throw DataError(fmt::format("{}: {}{}: a list of {} entries; legal: up to {}", where_, prefix_, key, v->size(),
                                  kLongestList));
    std::vector<double> list;
    for (const auto& e : *v) {
      if (!e.is_number()) refuse(key, "a list of numbers");
      list.push_back(e.get<double>());
    }
    return list;
  }
  // Returns an empty list if the key is absent.
  std::vector<int64_t> integers(const std::string& key) const {
    std::vector<int64_t> list;
    if (!has(key)) return list;
    for (const double x : numbers(key)) {
      if (x < 0 || x > 9e15 || x != std::floor(x)) refuse(key, "a list of whole numbers");
      list.push_back(static_cast<int64_t>(x));
    }
    return list;
  }
  // Returns an object without keys if the key is absent.
  HfKeys object(const std::string& key) const {
    if (has(key) && !object_.at(key).is_object()) refuse(key, "an object");
    return {has(key) ? object_.at(key) : nlohmann::json::object(), where_, prefix_ + key + "."};
  }

  // Refuses an explicit null, for keys where null and absent have different meanings.
  void not_null(const std::string& key, const std::string& legal) const {
    if (object_.contains(key) && object_.at(key).is_null()) refuse(key, legal);
  }
  void must_be(const std::string& key, bool value) const {
    if (flag(key, value) != value) refuse(key, value ? "true" : "false");
  }
  void text_among(const std::string& key, const std::string& otherwise,
                  std::initializer_list<std::string_view> legal) const {
    const std::string value = text(key, otherwise);
    std::string names;
    for (const std::string_view l : legal) {
      if (value == l) return;
      names += (names.empty() ? "" : ", ") + std::string(l);
    }
    refuse(key, names);
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& legal) const {
    std::string value = object_.contains(key) ? object_.at(key).dump(-1, ' ', true) : "absent";
    if (value.size() > 80) value = value.substr(0, 80) + "...";
    throw DataError(fmt::format("{}: {}{}: {}; legal: {}", where_, prefix_, key, value, legal));
  }

 private:
  const nlohmann::json* find(const std::string& key, bool optional, const char* legal) const {
    if (has(key)) return &object_.at(key);
    if (!optional) refuse(key, legal);
    return nullptr;
  }
  nlohmann::json object_;
  std::string where_, prefix_;
};

}  // namespace fp
