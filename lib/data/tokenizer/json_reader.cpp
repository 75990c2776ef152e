#include "data/tokenizer/json_reader.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/bpe.h"
#include "io/json_numbers.h"

namespace fp {

void JsonValue::fail(const std::string& what) const {
  throw DataError(fmt::format("{}: {}: {}", *where_, path_.empty() ? "(root)" : path_, what));
}

void JsonValue::illegal(const std::string& legal) const {
  fail(fmt::format("not supported or malformed; legal: {}", legal));
}

JsonValue JsonValue::at(const std::string& name) const {
  need(value_->is_object(), "an object");
  JsonValue field = get(name);
  if (!has(name)) field.fail("missing");
  return field;
}

JsonValue JsonValue::get(const std::string& name) const {
  static const Json null;
  return {has(name) ? (*value_)[name] : null, *where_, path_.empty() ? name : path_ + "." + name};
}

void JsonValue::only(std::initializer_list<std::string_view> names) const {
  need(value_->is_object(), "an object");
  for (const auto& [key, value] : value_->items())
    if (std::find(names.begin(), names.end(), key) == names.end()) get(key).fail("unknown field");
}

JsonValue JsonValue::operator[](size_t i) const { return {(*value_)[i], *where_, fmt::format("{}[{}]", path_, i)}; }

std::string JsonValue::text() const {
  need(value_->is_string(), "a string");
  return value_->get<std::string>();
}

bool JsonValue::flag(bool absent) const {
  if (is_null()) return absent;
  need(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

int32_t JsonValue::id() const { return static_cast<int32_t>(integer(0, kMaxTokenIds - 1)); }

int64_t JsonValue::integer(int64_t least, int64_t most) const {
  need(is_integer(*value_, least, most), fmt::format("an integer from {} to {}", least, most));
  return value_->get<int64_t>();
}

std::string JsonValue::type() const {
  const JsonValue type = get("type");
  return type.is_null() ? "" : type.text();
}

}  // namespace fp
