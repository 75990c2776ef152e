// Values of Jinja templates, and the filters, tests, methods and operators on them. Functions that return an optional
// return nothing for what is outside the subset (data/text/jinja.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/jinja_syntax.h"

namespace fp::jinja {

// Upper bound of weight(), which counts values and the bytes of their texts. A value that is nested too deeply is above
// it.
inline constexpr size_t kMaxWeight = size_t{1} << 20;
size_t weight(const Value& value, int depth = 0);

bool is_true(const Value& value);
bool equal(const Value& a, const Value& b);
// Returns "a text", "a list", ..., for messages.
std::string kind_of(const Value& value);

std::optional<Value> apply_binary(const std::string& sign, const Value& left, const Value& right);
std::optional<Value> apply_filter(const std::string& name, const Value& value, const std::vector<Value>& arguments,
                                  const Value& named);
std::optional<Value> apply_test(const std::string& name, const Value& value);
std::optional<Value> apply_method(const std::string& name, const Value& object, const std::vector<Value>& arguments);
// Returns the list of range().
std::optional<Value> numbers(const std::vector<Value>& bounds);

}  // namespace fp::jinja
