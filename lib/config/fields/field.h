// Declarations of the fields of a YAML document. Each field is declared once, with its key, the member that holds it
// (whose initializer is the default), its documentation and its limits. Parsing, validation, the resolved dump, the
// JSON Schema and the reference page all iterate over these declarations.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/enum_names.h"

namespace fp {

// Documentation and limits of a field. For a list, limits and choices apply to each element. Numbers must be finite.
struct FieldInfo {
  std::string_view doc;
  std::string_view unit = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not legal
  bool below_max = false;  // max itself is not legal
  std::vector<std::string_view> choices = {};
  bool required = false;                         // no default: must be given wherever its section is
  std::string_view empty = "[]";                 // YAML text of an empty list
  std::vector<std::string_view> elsewhere = {};  // names in other programs, for "did you mean"
};

class Fields;

// Accesses an enum member as an index into its names.
struct EnumRef {
  EnumNames names;
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};

// The same for a list of enumerators.
struct EnumListRef {
  EnumNames names;
  std::function<std::vector<size_t>()> get;
  std::function<void(const std::vector<size_t>&)> set;
};

struct SectionRef {
  std::function<Fields()> fields;
};

// Accesses a list of sections of one type.
struct SectionListRef {
  std::function<size_t()> size;
  std::function<void(size_t)> resize;
  std::function<Fields(size_t)> item;
  std::function<Fields()> blank;  // fields of a default item; valid while the returned object lives
};

using FieldRef =
    std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::optional<double>*, std::string*, std::vector<int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, EnumRef, EnumListRef, SectionRef, SectionListRef>;

// True if FieldRef has the alternative T*.
template <class T, class Variant>
inline constexpr bool is_value_of = false;
template <class T, class... Alternatives>
inline constexpr bool is_value_of<T, std::variant<Alternatives...>> = (std::is_same_v<T*, Alternatives> || ...);

struct Field {
  std::string_view key;
  FieldRef ref;
  FieldInfo info;
};

class Fields {
 public:
  template <class T>
  void add(std::string_view key, T& member, FieldInfo info);

  const std::vector<Field>& list() const { return list_; }
  const Field* find(std::string_view key) const;
  std::vector<std::string_view> keys() const;

 private:
  template <class T>
  static FieldRef make_ref(T& member);

  std::vector<Field> list_;
  std::shared_ptr<void> owned_;  // keeps a blank item alive
  template <class T>
  friend Fields blank_fields();
};

// Returns the fields of a section, bound to the members of `section`, which must outlive them. declare(Fields&,
// Section&) is in run_spec_fields.h.
template <class Section>
Fields fields_of(Section& section) {
  Fields f;
  declare(f, section);
  return f;
}

template <class Section>
Fields blank_fields() {
  auto blank = std::make_shared<Section>();
  Fields f = fields_of(*blank);
  f.owned_ = blank;
  return f;
}

template <class T>
void Fields::add(std::string_view key, T& member, FieldInfo info) {
  list_.push_back({key, make_ref(member), std::move(info)});
}

template <class T>
FieldRef Fields::make_ref(T& member) {
  if constexpr (is_value_of<T, FieldRef>) {
    return &member;
  } else if constexpr (std::is_enum_v<T>) {
    return EnumRef{names_of(T{}), [&member] { return static_cast<size_t>(member); },
                   [&member](size_t i) { member = static_cast<T>(i); }};
  } else if constexpr (requires { requires std::is_enum_v<typename T::value_type>; }) {
    using Item = typename T::value_type;
    return EnumListRef{names_of(Item{}),
                       [&member] {
                         std::vector<size_t> indices;
                         for (const Item item : member) indices.push_back(static_cast<size_t>(item));
                         return indices;
                       },
                       [&member](const std::vector<size_t>& indices) {
                         member.clear();
                         for (const size_t i : indices) member.push_back(static_cast<Item>(i));
                       }};
  } else if constexpr (requires { typename T::value_type; }) {
    using Item = typename T::value_type;
    return SectionListRef{[&member] { return member.size(); }, [&member](size_t n) { member.resize(n); },
                          [&member](size_t i) { return fields_of(member[i]); }, [] { return blank_fields<Item>(); }};
  } else {
    return SectionRef{[&member] { return fields_of(member); }};
  }
}

// Returns the type for messages: "integer", "number", "true or false", "text", "one of ...", "list of ...".
std::string type_text(const Field& field);
// Returns the legal values for messages and the reference: "one of a, b", "> 0", "from 0 to 1 (1 excluded)". Empty if
// every value of the type is legal.
std::string legal_text(const Field& field);
// Returns the legal values of a text or an enum, or of the items of a list of them; empty if any text is legal.
std::vector<std::string_view> choices_of(const Field& field);
// Returns the value as YAML on one line (not for sections).
std::string yaml_text(const Field& field);

// Returns the shortest decimal that reads back to the same double.
std::string shortest(double value);

}  // namespace fp
