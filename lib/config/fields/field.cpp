#include "config/fields/field.h"

#include <cmath>

#include "base/error.h"
#include "config/fields/overload.h"
#include "config/yaml/problems.h"
#include "config/yaml/scalar.h"

namespace fp {

namespace {

// Returns the text unquoted if YAML reads it back as the same text, else double-quoted.
std::string yaml_scalar(std::string_view text) {
  const auto plain_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-' || c == '+';
  };
  bool plain = !text.empty() && text.front() != '-' && classify_plain(text) == PlainKind::text;
  for (const char c : text) plain = plain && plain_character(c);
  if (plain) return std::string(text);
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      s += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      s += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      s += c;
  }
  return s + "\"";
}

template <class List, class Format>
std::string flow_list(const List& list, std::string_view empty, Format&& format) {
  if (list.empty()) return std::string(empty);
  std::string s = "[";
  for (const auto& item : list) s += (s.size() > 1 ? ", " : "") + format(item);
  return s + "]";
}

}  // namespace

const Field* Fields::find(std::string_view key) const {
  for (const Field& f : list_)
    if (f.key == key) return &f;
  return nullptr;
}

std::vector<std::string_view> Fields::keys() const {
  std::vector<std::string_view> keys;
  for (const Field& f : list_) keys.push_back(f.key);
  return keys;
}

std::string shortest(double value) { return fmt::format("{}", value); }

std::string type_text(const Field& field) {
  const std::string_view empty = field.info.empty;
  const std::string or_empty = empty == FieldInfo().empty ? "" : fmt::format("`{}` or ", empty);
  return or_empty +
         std::visit(
             Overload{[](bool*) { return "true or false"; }, [](int*) { return "integer"; },
                      [](int64_t*) { return "integer"; }, [](uint64_t*) { return "integer"; },
                      [](double*) { return "number"; }, [](std::optional<double>*) { return "number or null"; },
                      [](std::string*) { return "text"; }, [](std::vector<int64_t>*) { return "list of integers"; },
                      [](std::vector<double>*) { return "list of numbers"; },
                      [](std::vector<std::string>*) { return "list of text"; }, [](const EnumRef&) { return "text"; },
                      [](const EnumListRef&) { return "list of text"; }, [](const SectionRef&) { return "section"; },
                      [](const SectionListRef&) { return "list of sections"; }},
             field.ref);
}

std::vector<std::string_view> choices_of(const Field& field) {
  if (const auto* e = std::get_if<EnumRef>(&field.ref)) return {e->names.begin(), e->names.end()};
  if (const auto* e = std::get_if<EnumListRef>(&field.ref)) return {e->names.begin(), e->names.end()};
  return field.info.choices;
}

std::string legal_text(const Field& field) {
  if (const auto choices = choices_of(field); !choices.empty())
    return choices.size() == 1 ? std::string(choices.front()) : "one of " + joined(choices);
  const FieldInfo& i = field.info;
  const bool low = std::isfinite(i.min), high = std::isfinite(i.max);
  if (low && high && i.min == i.max) return shortest(i.min);
  if (low && high)
    return fmt::format("from {} to {}{}{}", shortest(i.min), shortest(i.max), i.above_min ? " (0 excluded)" : "",
                       i.below_max ? fmt::format(" ({} excluded)", shortest(i.max)) : "");
  if (low) return fmt::format("{} {}", i.above_min ? ">" : ">=", shortest(i.min));
  if (high) return fmt::format("{} {}", i.below_max ? "<" : "<=", shortest(i.max));
  if (std::holds_alternative<uint64_t*>(field.ref)) return "from 0 to 18446744073709551615";
  return "";
}

std::string yaml_text(const Field& field) {
  const auto number = [](double v) { return shortest(v); };
  const auto integer = [](int64_t v) { return fmt::format("{}", v); };
  return std::visit(
      Overload{[](bool* v) -> std::string { return *v ? "true" : "false"; },
               [](int* v) { return fmt::format("{}", *v); }, [](int64_t* v) { return fmt::format("{}", *v); },
               [](uint64_t* v) { return fmt::format("{}", *v); }, [](double* v) { return shortest(*v); },
               [](std::optional<double>* v) -> std::string { return *v ? shortest(**v) : "null"; },
               [](std::string* v) { return yaml_scalar(*v); },
               [&](std::vector<int64_t>* v) { return flow_list(*v, field.info.empty, integer); },
               [&](std::vector<double>* v) { return flow_list(*v, field.info.empty, number); },
               [&](std::vector<std::string>* v) { return flow_list(*v, field.info.empty, yaml_scalar); },
               [](const EnumRef& e) { return std::string(e.names[e.get()]); },
               [&](const EnumListRef& e) {
                 return flow_list(e.get(), field.info.empty, [&](size_t i) { return std::string(e.names[i]); });
               },
               [](const SectionRef&) -> std::string { throw InternalError("a section is not a value"); },
               [](const SectionListRef& l) -> std::string {
                 FP_CHECK(l.size() == 0, "a list of sections is not a value");
                 return "[]";
               }},
      field.ref);
}

}  // namespace fp
