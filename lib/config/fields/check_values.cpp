#include "config/fields/check_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fp {

bool is_in_range(double v, const FieldInfo& i) {
  return (i.above_min ? v > i.min : v >= i.min) && (i.below_max ? v < i.max : v <= i.max);
}

std::string refusal(const Field& field, const std::string& path, const std::string& what) {
  const std::string limits = legal_text(field);
  return fmt::format("{}: {}; legal: {}{}{}", path, what, type_text(field), limits.empty() ? "" : " ", limits);
}

namespace {

class ValueChecker {
 public:
  ValueChecker(const Place& place, Written& written, Problems& problems)
      : place_(place), written_(written), problems_(problems) {}

  void section(const Fields& fields, const Fields& defaults, const std::string& path) {
    for (size_t i = 0; i < fields.list().size(); ++i) {
      const Field& f = fields.list()[i];
      const std::string here = path.empty() ? std::string(f.key) : path + "." + std::string(f.key);
      if (written_.open.count(here) != 0) continue;
      written_.places[here] = place_;
      std::visit([&](const auto& ref) { check(f, defaults.list()[i].ref, here, ref); }, f.ref);
    }
  }

 private:
  bool refuse(const Field& field, const std::string& path, const std::string& what) {
    written_.failed.insert(path);
    problems_.add(place_, refusal(field, path, what));
    return false;
  }

  template <class Number>
  bool is_legal(const Field& field, const std::string& path, Number value) requires std::is_arithmetic_v<Number> {
    if constexpr (std::is_floating_point_v<Number>)
      if (!std::isfinite(value)) return refuse(field, path, shortest(value) + " must be finite");
    return is_in_range(static_cast<double>(value), field.info) ||
           refuse(field, path, fmt::format("{} is out of range", value));
  }
  bool is_legal(const Field&, const std::string&, bool) { return true; }
  bool is_legal(const Field& field, const std::string& path, const std::optional<double>& value) {
    return !value || is_legal(field, path, *value);
  }
  bool is_legal(const Field& field, const std::string& path, const std::string& text) {
    const std::vector<std::string_view> choices = choices_of(field);
    if (choices.empty() || std::ranges::find(choices, text) != choices.end()) return true;
    const auto near = nearest(text, choices);
    return refuse(field, path,
                  fmt::format("'{}' is not known{}", shown(text),
                              near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  }
  template <class T>
  bool is_legal(const Field& field, const std::string& path, const std::vector<T>& list) {
    bool all = true;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      written_.places[at] = place_;
      all = is_legal(field, at, list[i]) && all;
    }
    if (!all) written_.failed.insert(path);
    return all;
  }

  template <class T>
  void check(const Field& field, const FieldRef& fallback, const std::string& path, T* const& value) {
    if (!is_legal(field, path, *value)) *value = *std::get<T*>(fallback);
  }
  void check(const Field&, const FieldRef&, const std::string&, const EnumRef&) {}
  void check(const Field&, const FieldRef&, const std::string& path, const EnumListRef& ref) {
    for (size_t i = 0; i < ref.get().size(); ++i) written_.places[fmt::format("{}[{}]", path, i)] = place_;
  }
  void check(const Field&, const FieldRef& fallback, const std::string& path, const SectionRef& ref) {
    section(ref.fields(), std::get<SectionRef>(fallback).fields(), path);
  }
  void check(const Field&, const FieldRef&, const std::string& path, const SectionListRef& ref) {
    for (size_t i = 0; i < ref.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      written_.places[at] = place_;
      section(ref.item(i), ref.blank(), at);
    }
  }

  const Place& place_;
  Written& written_;
  Problems& problems_;
};

}  // namespace

void check_values(const Fields& fields, const Fields& defaults, const Place& place, Written& written,
                  Problems& problems) {
  ValueChecker(place, written, problems).section(fields, defaults, "");
}

}  // namespace fp
