#include "data/text/jinja_values.h"

#include <algorithm>
#include <cctype>

namespace fp::jinja {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

std::string stripped(std::string text, std::string_view characters, bool left, bool right) {
  if (right) text.resize(text.find_last_not_of(characters) + 1);
  if (left) text.erase(0, std::min(text.find_first_not_of(characters), text.size()));
  return text;
}

// ASCII only, which is all that role names need.
std::string with_case(std::string text, int (*change)(int)) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x80) c = static_cast<char>(change(static_cast<unsigned char>(c)));
  return text;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  std::string result;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string::npos; at = found + from.size()) {
    result.append(text, at, found - at).append(to);
    if (result.size() > kMaxWeight) return result;  // refused by its weight
  }
  return result.append(text, at);
}

Value split(const std::string& text, const std::string& by) {
  Value parts = Value::array();
  size_t at = 0;
  for (size_t found; (found = text.find(by, at)) != std::string::npos; at = found + by.size())
    parts.push_back(text.substr(at, found - at));
  parts.push_back(text.substr(at));
  return parts;
}

bool all_texts(const std::vector<Value>& values) {
  return std::all_of(values.begin(), values.end(), [](const Value& v) { return v.is_string(); });
}

std::optional<Value> join(const Value& list, const std::string& by) {
  std::string text;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) return std::nullopt;
    text += (i > 0 ? by : "") + list[i].get_ref<const std::string&>();
    if (text.size() > kMaxWeight) return std::nullopt;
  }
  return text;
}

std::optional<Value> apply_to_numbers(const std::string& sign, int64_t a, int64_t b) {
  constexpr int64_t kMax = int64_t{1} << 31;
  if (a > kMax || b > kMax || a < -kMax || b < -kMax) return std::nullopt;
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "<") return a < b;
  if (sign == ">") return a > b;
  if (sign == "<=") return a <= b;
  if (sign == ">=") return a >= b;
  if (b == 0 || (sign != "//" && sign != "%")) return std::nullopt;
  const int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);  // rounded down, as in Python
  return sign == "//" ? quotient : a - quotient * b;
}

std::optional<Value> contained(const Value& item, const Value& in) {
  if (in.is_string() && item.is_string())
    return in.get_ref<const std::string&>().find(item.get_ref<const std::string&>()) != std::string::npos;
  if (in.is_object() && item.is_string()) return in.contains(item.get_ref<const std::string&>());
  if (in.is_array()) return std::any_of(in.begin(), in.end(), [&](const Value& v) { return equal(v, item); });
  return std::nullopt;
}

}  // namespace

size_t weight(const Value& value, int depth) {
  constexpr int kMaxDepth = 40;
  if (value.is_string()) return 1 + value.get_ref<const std::string&>().size();
  size_t sum = depth > kMaxDepth ? kMaxWeight + 1 : 1;
  if (value.is_structured() && depth <= kMaxDepth)
    for (const Value& element : value)
      if ((sum += weight(element, depth + 1)) > kMaxWeight) break;
  return sum;
}

bool is_true(const Value& v) {
  if (v.is_discarded() || v.is_null()) return false;
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>() != 0.0;
  return v.is_string() ? !v.get_ref<const std::string&>().empty() : !v.empty();
}

bool equal(const Value& a, const Value& b) {
  if (a.is_discarded() || b.is_discarded()) return a.is_discarded() && b.is_discarded();
  return a == b;
}

std::string kind_of(const Value& v) {
  if (v.is_discarded()) return "an undefined value";
  if (v.is_string()) return "a text";
  if (v.is_array()) return "a list";
  if (v.is_object()) return "a dict";
  return v.is_null() ? "none" : v.is_boolean() ? "a boolean" : "a number";
}

std::optional<Value> apply_binary(const std::string& sign, const Value& left, const Value& right) {
  if (sign == "in") return contained(left, right);
  if (left.is_number_integer() && right.is_number_integer())
    return apply_to_numbers(sign, left.get<int64_t>(), right.get<int64_t>());
  if (sign == "+" && left.is_string() && right.is_string())
    return left.get_ref<const std::string&>() + right.get_ref<const std::string&>();
  if (sign == "+" && left.is_array() && right.is_array()) {
    Value joined = left;
    joined.insert(joined.end(), right.begin(), right.end());
    return joined;
  }
  return std::nullopt;
}

std::optional<Value> apply_filter(const std::string& name, const Value& v, const std::vector<Value>& arguments,
                                  const Value& named) {
  if (name == "default" || name == "d") {
    if (arguments.empty() || arguments.size() > 2) return std::nullopt;
    const bool falsy =
        (arguments.size() == 2 && is_true(arguments[1])) || is_true(named.value("boolean", Value(false)));
    return v.is_discarded() || (falsy && !is_true(v)) ? arguments[0] : v;
  }
  if (!named.empty()) return std::nullopt;
  if (name == "join" && v.is_array() && arguments.size() <= 1 && all_texts(arguments))
    return join(v, arguments.empty() ? "" : arguments[0].get<std::string>());
  if (name == "replace" && v.is_string() && arguments.size() == 2 && all_texts(arguments))
    return replaced(v.get<std::string>(), arguments[0].get<std::string>(), arguments[1].get<std::string>());
  if (!arguments.empty()) return std::nullopt;
  if (name == "length" || name == "count") {
    if (v.is_array() || v.is_object()) return v.size();
    return std::nullopt;
  }
  if (name == "first" || name == "last") {
    if (!v.is_array() || v.empty()) return std::nullopt;
    return name == "first" ? v.front() : v.back();
  }
  if (name == "list" && v.is_array()) return v;
  if (name == "tojson" && v.is_primitive() && !v.is_discarded())
    return v.dump(-1, ' ', false, Value::error_handler_t::replace);
  if (name == "int" && v.is_number_integer()) return v;
  if (!v.is_string()) return std::nullopt;
  const auto text = v.get<std::string>();
  if (name == "trim") return stripped(text, kWhiteSpace, true, true);
  if (name == "upper") return with_case(text, std::toupper);
  if (name == "lower") return with_case(text, std::tolower);
  if (name == "string" || name == "safe") return text;
  return std::nullopt;
}

std::optional<Value> apply_test(const std::string& name, const Value& v) {
  if (name == "defined") return !v.is_discarded();
  if (name == "undefined") return v.is_discarded();
  if (name == "none") return v.is_null();
  if (name == "string") return v.is_string();
  if (name == "mapping") return v.is_object();
  if (name == "iterable" || name == "sequence") return v.is_string() || v.is_structured();
  if (name == "number") return v.is_number();
  if (name == "integer") return v.is_number_integer();
  if (name == "boolean") return v.is_boolean();
  if (name == "true") return v == Value(true);
  if (name == "false") return v == Value(false);
  return std::nullopt;
}

std::optional<Value> apply_method(const std::string& name, const Value& object, const std::vector<Value>& arguments) {
  if (object.is_object()) {
    if (name == "get" && !arguments.empty() && arguments.size() <= 2 && arguments[0].is_string())
      return object.value(arguments[0].get<std::string>(), arguments.size() == 2 ? arguments[1] : Value());
    if ((name != "items" && name != "keys") || !arguments.empty()) return std::nullopt;
    Value list = Value::array();
    for (const auto& [key, value] : object.items())
      list.push_back(name == "items" ? Value::array({key, value}) : Value(key));
    return list;
  }
  if (!object.is_string() || !all_texts(arguments)) return std::nullopt;
  const auto text = object.get<std::string>();
  const std::string first = arguments.empty() ? "" : arguments[0].get<std::string>();
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    if (arguments.size() > 1) return std::nullopt;
    return stripped(text, arguments.empty() ? kWhiteSpace : std::string_view(first), name != "rstrip",
                    name != "lstrip");
  }
  if (name == "replace" && arguments.size() == 2) return replaced(text, first, arguments[1].get<std::string>());
  if (name == "split" && arguments.size() == 1 && !first.empty()) return split(text, first);
  if (name == "startswith" && arguments.size() == 1) return text.starts_with(first);
  if (name == "endswith" && arguments.size() == 1) return text.ends_with(first);
  if (name == "upper" && arguments.empty()) return with_case(text, std::toupper);
  if (name == "lower" && arguments.empty()) return with_case(text, std::tolower);
  return std::nullopt;
}

std::optional<Value> numbers(const std::vector<Value>& bounds) {
  constexpr int64_t kMost = 10'000;
  const auto legal = [](const Value& v) { return v.is_number_integer(); };
  if (bounds.empty() || bounds.size() > 2 || !std::all_of(bounds.begin(), bounds.end(), legal)) return std::nullopt;
  const int64_t begin = bounds.size() == 2 ? bounds[0].get<int64_t>() : 0, end = bounds.back().get<int64_t>();
  if (begin < -kMost || end > kMost) return std::nullopt;
  Value list = Value::array();
  for (int64_t i = begin; i < end; ++i) list.push_back(i);
  return list;
}

}  // namespace fp::jinja
