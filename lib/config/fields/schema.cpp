#include <cmath>
#include <nlohmann/json.hpp>

#include "config/fields/overload.h"
#include "config/fields/reference.h"
#include "config/run_spec_fields.h"

namespace fp {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson object_schema(const Fields& fields);

// Writes whole limits as integers, so that 0 does not become "0.0".
OrderedJson number(double v) {
  return v == std::floor(v) && std::abs(v) < 1e18 ? OrderedJson(static_cast<int64_t>(v)) : OrderedJson(v);
}

void add_limits(OrderedJson& j, const FieldInfo& i) {
  if (std::isfinite(i.min)) j[i.above_min ? "exclusiveMinimum" : "minimum"] = number(i.min);
  if (std::isfinite(i.max)) j[i.below_max ? "exclusiveMaximum" : "maximum"] = number(i.max);
}

template <class T>
OrderedJson integer(const T& value, const FieldInfo& info) {
  OrderedJson j = {{"type", "integer"}, {"default", value}};
  if (std::is_unsigned_v<T>) j["minimum"] = 0;
  add_limits(j, info);
  return j;
}

template <class T>
OrderedJson list_schema(const Field& field, const std::vector<T>& value) {
  const FieldInfo& info = field.info;
  constexpr bool text = std::is_same_v<T, std::string>;
  OrderedJson item = {{"type", text ? "string" : std::is_integral_v<T> ? "integer" : "number"}};
  if (const auto choices = choices_of(field); !choices.empty()) item["enum"] = choices;
  add_limits(item, info);
  OrderedJson list = {{"type", "array"}, {"items", item}, {"default", value}};
  if (info.empty == FieldInfo().empty) return list;
  return {{"anyOf", {{{"const", info.empty}}, list}},
          {"default", value.empty() ? OrderedJson(info.empty) : OrderedJson(value)}};
}

OrderedJson text_schema(const Field& field, const std::string& value) {
  OrderedJson j = {{"type", "string"}, {"default", value}};
  if (const auto choices = choices_of(field); !choices.empty()) j["enum"] = choices;
  return j;
}

OrderedJson field_schema(const Field& field) {
  const FieldInfo& info = field.info;
  const auto limited = [&](OrderedJson j) {
    add_limits(j, info);
    return j;
  };
  OrderedJson j = std::visit(
      Overload{
          [](bool* v) -> OrderedJson {
            return {{"type", "boolean"}, {"default", *v}};
          },
          [&](int* v) { return integer(*v, info); }, [&](int64_t* v) { return integer(*v, info); },
          [&](uint64_t* v) { return integer(*v, info); },
          [&](double* v) {
            return limited({{"type", "number"}, {"default", *v}});
          },
          [&](std::optional<double>* v) {
            return limited({{"type", {"number", "null"}}, {"default", *v ? OrderedJson(**v) : OrderedJson(nullptr)}});
          },
          [&](std::string* v) { return text_schema(field, *v); },
          [&](const EnumRef& e) { return text_schema(field, std::string(e.names[e.get()])); },
          [&](const EnumListRef& e) {
            std::vector<std::string> names;
            for (const size_t i : e.get()) names.emplace_back(e.names[i]);
            return list_schema(field, names);
          },
          [&](std::vector<int64_t>* v) { return list_schema(field, *v); },
          [&](std::vector<double>* v) { return list_schema(field, *v); },
          [&](std::vector<std::string>* v) { return list_schema(field, *v); },
          [](const SectionRef& s) { return object_schema(s.fields()); },
          [](const SectionListRef& l) -> OrderedJson {
            return {{"type", "array"}, {"items", object_schema(l.blank())}, {"default", OrderedJson::array()}};
          }},
      field.ref);
  j["description"] = std::string(info.doc) + (info.unit.empty() ? "" : " Unit: " + std::string(info.unit) + ".");
  return j;
}

OrderedJson object_schema(const Fields& fields) {
  OrderedJson properties = OrderedJson::object(), required = OrderedJson::array();
  for (const Field& f : fields.list()) {
    properties[std::string(f.key)] = field_schema(f);
    if (f.info.required) required.push_back(f.key);
  }
  OrderedJson j = {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  if (!required.empty()) j["required"] = required;
  return j;
}

}  // namespace

std::string run_spec_schema() {
  RunSpec defaults;
  OrderedJson j = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "fptrain run spec"}};
  j.update(object_schema(fields_of(defaults)));
  return j.dump(2) + "\n";
}

}  // namespace fp
