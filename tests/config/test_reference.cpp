// The JSON Schema agrees with the parser, and the reference page in docs/ is current.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "config/fields/reference.h"
#include "config/load.h"
#include "config/run_spec_fields.h"
#include "config/yaml/scalar.h"
#include "config/yaml/yaml_tree.h"
#include "expect.h"

namespace fp {

namespace {

using Json = nlohmann::json;

Json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return nullptr;
    case YamlNode::Kind::list: {
      Json j = Json::array();
      for (const YamlNode& item : node.items) j.push_back(to_json(item));
      return j;
    }
    case YamlNode::Kind::map: {
      Json j = Json::object();
      for (const YamlEntry& e : node.entries) j[e.key] = to_json(e.value);
      return j;
    }
    case YamlNode::Kind::scalar:
      break;
  }
  if (node.quoted) return node.text;
  switch (classify_plain(node.text)) {
    case PlainKind::boolean:
      return node.text == "true";
    case PlainKind::number:
      if (const IntegerText i = parse_integer(node.text); i.error.empty())
        return i.negative ? Json(-static_cast<int64_t>(i.magnitude)) : Json(i.magnitude);
      return parse_real(node.text).value;
    default:
      return node.text;
  }
}

bool is_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

// Validates the part of draft-07 that the schema uses. Unknown keywords fail the test.
bool accepts(const Json& schema, const Json& value) {
  for (const auto& [keyword, rule] : schema.items()) {
    if (keyword == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      bool any = false;
      for (const auto& t : types) any = any || is_type(value, t);
      if (!any) return false;
    } else if (keyword == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end()) return false;
    } else if (keyword == "const") {
      if (value != rule) return false;
    } else if (keyword == "anyOf") {
      const auto fits = [&](const Json& one) { return accepts(one, value); };
      if (std::none_of(rule.begin(), rule.end(), fits)) return false;
    } else if (keyword == "minimum" || keyword == "maximum" || keyword == "exclusiveMinimum" ||
               keyword == "exclusiveMaximum") {
      if (!value.is_number()) continue;
      const double v = value, limit = rule;
      if (keyword == "minimum"            ? v < limit
          : keyword == "maximum"          ? v > limit
          : keyword == "exclusiveMinimum" ? v <= limit
                                          : v >= limit)
        return false;
    } else if (keyword == "items") {
      if (!value.is_array()) continue;
      for (const auto& item : value)
        if (!accepts(rule, item)) return false;
    } else if (keyword == "required") {
      for (const auto& key : rule)
        if (!value.contains(key)) return false;
    } else if (keyword == "properties") {
      for (const auto& [key, v] : value.items())
        if (rule.contains(key) && !accepts(rule[key], v)) return false;
    } else if (keyword == "additionalProperties") {
      REQUIRE(rule == false);
      for (const auto& [key, v] : value.items())
        if (!schema["properties"].contains(key)) return false;
    } else {
      const bool known = keyword == "$schema" || keyword == "title" || keyword == "default" || keyword == "description";
      INFO(keyword);
      REQUIRE(known);
    }
  }
  return true;
}

bool schema_accepts(const std::string& text) {
  static const Json schema = Json::parse(run_spec_schema());
  Problems problems;
  const YamlNode root = parse_yaml(text, "text", problems);
  problems.throw_if_any();
  return accepts(schema, to_json(root));
}

void check_described(const Json& schema, const std::string& path) {
  for (const auto& [key, field] : schema["properties"].items()) {
    INFO(path << "." << key);
    CHECK(field["description"].get<std::string>().size() > 10);
    if (field.contains("properties"))
      check_described(field, path + "." + key);
    else if (!(path == "data.train[]" && key == "path"))
      CHECK(field.contains("default"));
    if (field.contains("items") && field["items"].contains("properties"))
      check_described(field["items"], path + "." + key + "[]");
  }
}

}  // namespace

TEST_CASE("the schema is draft-07 and describes every key", "[config][schema]") {
  const Json schema = Json::parse(run_spec_schema());
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(schema["properties"].size() == 14);
  check_described(schema, "");
}

TEST_CASE("the schema accepts the specs that the parser accepts", "[config][schema]") {
  CHECK(schema_accepts("{}"));
  for (const char* preset : {"gpt2", "llama-3.2-1b", "phi-3-mini-128k", "phi-3-small-8k"})
    CHECK(schema_accepts(dump(parse_run_spec("{}", "t", {std::string("model.preset=") + preset}))));
  CHECK(schema_accepts(dump(parse_run_spec("data: {train: [{path: a, weight: 2}]}", "t"))));
}

TEST_CASE("the schema refuses the specs that the parser refuses", "[config][schema]") {
  const char* text = GENERATE(
      "optimiser: {}", "optimizer: {rate: 1}", "optimizer: 3", "optimizer: {lr: 0}", "optimizer: {lr: fast}",
      "optimizer: {beta1: 1}", "optimizer: {beta1: -0.1}", "optimizer: {kind: sgd}", "train: {steps: 1.5}",
      "train: {steps: 0}", "run: {seed: -1}", "run: {name: 3}", "model: {tied_embeddings: yes}",
      "model: {family: mamba}", "model: {masked_ids: 3}", "model: {masked_ids: [-1]}", "model: {masked_ids: [1.5]}",
      "model: {rope: {attention_factor: big}}", "model: {rope: {short_factor: [0]}}", "data: {train: {path: a}}",
      "data: {train: [{weight: 1}]}", "data: {train: [{path: a, wight: 1}]}", "data: {train: [{path: a, weight: 0}]}",
      "parallel: {pipeline: 2}", "parallel: {pipeline: {layers: all}}", "parallel: {pipeline: {layers: [-1]}}",
      "parallel: {pipeline: {recompute: [some]}}");
  CAPTURE(text);
  CHECK_FALSE(schema_accepts(text));
  CHECK(error_of(text) != "");
}

TEST_CASE("docs/run-spec.md is current", "[config][docs]") {
  std::ifstream in(FP_SOURCE_DIR "/docs/run-spec.md");
  std::stringstream page;
  page << in.rdbuf();
  INFO("make it with: fptrain config docs --out docs/run-spec.md");
  CHECK(page.str() == run_spec_reference());
}

TEST_CASE("the example run specs are legal", "[config][docs]") {
  for (const char* name : {"gpt2-124m", "llama-3.2-1b", "one-gpu-70b", "parallel-8-cpu-ranks", "parallel-multi-node",
                           "pipeline-4-cpu-ranks", "quickstart", "short-context"}) {
    CAPTURE(name);
    CHECK_NOTHROW(
        load_run_spec(std::string(FP_SOURCE_DIR "/configs/") + name + ".yaml", {}, DataFolders::may_be_missing));
  }
}

}  // namespace fp
