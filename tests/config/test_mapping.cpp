#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "config/fields/reference.h"
#include "config/mapping/mapping.h"
#include "config/mapping/mapping_fields.h"
#include "config/preset.h"
#include "config/yaml/yaml_tree.h"
#include "io/filesystem.h"

namespace fp {
namespace {

using Catch::Contains;

// The beginning of a legal mapping, to which tests append lines.
const std::string kHead = "family: llama\nrules:\n- {source: \"a.{layer}.w\", target: \"b.{layer}.w\"}\n";

std::string mapping_refusal(const std::string& text) {
  try {
    parse_mapping(text, "m.yaml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

TEST_CASE("every key of a mapping file is parsed", "[config][mapping]") {
  const MappingSpec m = parse_mapping(kHead + "- source: \"[x.]head\"\n  target: head\n  same_as: embedding\n" +
                                          "- {source: e, target: embedding, pattern: fragment, dim: 1, sub_fragments: "
                                          "[heads, kv_heads], transform: transposed}\nignore: [\"x.{n}.mask\"]\n",
                                      "m.yaml");
  CHECK(m.family == Family::llama);
  REQUIRE(m.rules.size() == 3);
  CHECK(m.rules[0].pattern == PartPattern::unique);
  CHECK(m.rules[0].transform == TensorTransform::same);
  CHECK(m.rules[1].same_as == "embedding");
  CHECK(m.rules[2].pattern == PartPattern::fragment);
  CHECK(m.rules[2].dim == 1);
  CHECK(m.rules[2].sub_fragments == std::vector<std::string>{"heads", "kv_heads"});
  CHECK(m.rules[2].transform == TensorTransform::transposed);
  CHECK(m.ignore == std::vector<std::string>{"x.{n}.mask"});
}

TEST_CASE("mistakes in a mapping are reported with their line and the legal values", "[config][mapping]") {
  const auto rule = [](const std::string& text) { return mapping_refusal(kHead + "- {" + text + "}\n"); };
  CHECK_THAT(rule("source: x, target: y, patern: unique"),
             Contains("m.yaml:4") && Contains("'rules[1].patern'") && Contains("Did you mean 'pattern'"));
  CHECK_THAT(
      rule("source: x, target: y, pattern: uniqe"),
      Contains("m.yaml:4:") && Contains("'uniqe' is not known (did you mean 'unique'?)") && Contains("vocabulary"));
  CHECK_THAT(rule("source: x, target: y, transform: 3"), Contains("m.yaml:4") && Contains("rotary_pairs"));
  CHECK_THAT(rule("source: x"), Contains("rules[1].target must be given"));
  CHECK_THAT(rule("source: x, target: y, pattern: fragment, dim: 2"), Contains("2 is out of range") && Contains("-1"));
  CHECK_THAT(rule("source: x, target: y, pattern: fragment, sub_fragments: [head]"),
             Contains("rules[1].sub_fragments[0]") && Contains("did you mean 'heads'"));
  CHECK_THAT(rule("source: x, target: y, dim: 1"), Contains("rules[1].dim has no effect with pattern unique"));
  CHECK_THAT(rule("source: \"x.{l\", target: y"), Contains("m.yaml:4:12: rules[1].source: 'x.{l'"));
  CHECK_THAT(rule("source: \"x.{l}\", target: y"),
             Contains("m.yaml:4") && Contains("has the numbers none") && Contains("{l}"));
  CHECK_THAT(rule("source: x, target: \"[y]z\""), Contains("no optional part"));
  CHECK_THAT(rule("source: \"a.3.w\", target: y"),
             Contains("m.yaml:4") && Contains("rules[0].source = 'a.{layer}.w' stand for the same tensor"));
  CHECK_THAT(rule("source: \"x.{n}\", target: \"b.{n}.w\""), Contains("stand for the same parameter"));
  CHECK_THAT(rule("source: x, target: y, same_as: z"), Contains("rules[1].same_as = 'z' is not known"));
  CHECK_THAT(rule("source: x, target: y, same_as: \"b.{layer}.w\""), Contains("rules[1].same_as"));
  CHECK_THAT(mapping_refusal("family: lama\nrules: [{source: x, target: y}]\n"),
             Contains("m.yaml:1:9") && Contains("'llama'"));
  CHECK_THAT(mapping_refusal("family: gpt\nrules: []\n"), Contains("at least one entry"));
  CHECK_THAT(mapping_refusal("rules: [{source: x, target: y}]\n"), Contains("family must be given"));
  CHECK_THAT(mapping_refusal(kHead + "ignore:\n- mask\n- \"a.{n}.w\"\n"),
             Contains("m.yaml:6") && Contains("ignore[1]"));
  CHECK_THAT(mapping_refusal(kHead + "files: model.safetensors\n"), Contains("m.yaml:4") && Contains("{part}"));
  CHECK_THAT(mapping_refusal("files: \"{part}.st\"\n" + kHead + "- {source: \"x.{part}\", target: y}\n"),
             Contains("has {part}, but files is given too"));
  CHECK_THAT(mapping_refusal(""), Contains("empty: a mapping has family"));
  CHECK(rule("source: \"x.{part}\", target: y, pattern: fragment") == "accepted");
}

TEST_CASE("unparseable files are refused as mappings, not as run specs", "[config][mapping]") {
  CHECK(mapping_refusal("\x80\x02") == "m.yaml:1:1: byte 0x80 is not text: a mapping is YAML in UTF-8");
  CHECK_THAT(mapping_refusal(std::string(kMaxYamlBytes + 1, 'a')), Contains("not a mapping"));
  CHECK_THAT(mapping_refusal(kHead + "---\nx: 1\n"), Contains("a second document: a mapping is one YAML document"));
  CHECK_THAT(mapping_refusal(""), Contains("a mapping has family, rules"));
}

TEST_CASE("the shipped mappings are legal and named by format and family", "[config][mapping]") {
  const std::vector<std::string> names = mapping_names();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    CAPTURE(name);
    const MappingSpec m = load_mapping(find_mapping(name, ""));
    CHECK(name.ends_with("-" + std::string(names_of(m.family)[static_cast<size_t>(m.family)])));
  }
  for (const std::string_view name : names_of(Family{})) {
    const Family family = named<Family>(name).value();
    CHECK(choose_mapping("", "hf", family).family == family);
  }
}

TEST_CASE("an unknown mapping is refused with a list of the known ones", "[config][mapping]") {
  CHECK_THROWS_WITH(choose_mapping("", "meta", Family::gpt),
                    Contains("--format meta") && Contains("meta-gpt") && Contains("hf, llmc"));
  CHECK_THROWS_WITH(choose_mapping("meta-lama", "hf", Family::llama), Contains("meta-llama"));
  CHECK_THROWS_WITH(choose_mapping("meta-llama", "hf", Family::phi3),
                    Contains("of llama models") && Contains("a phi3"));
}

TEST_CASE("user mappings in $FPTRAIN_CONFIGS are found beside the shipped ones", "[config][mapping]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("fptrain-mappings-" + std::to_string(::getpid()));
  fs::create_directories(folder / "models");
  fs::create_directories(folder / "mappings");
  write_file_atomically(folder / "mappings/mine-llama.yaml", kHead);
  ::setenv("FPTRAIN_CONFIGS", folder.c_str(), 1);
  CHECK(choose_mapping("", "mine", Family::llama).name == folder / "mappings/mine-llama.yaml");
  CHECK(choose_mapping("", "hf", Family::llama).rules.size() > 1);
  CHECK_THROWS_WITH(choose_mapping("", "your", Family::llama), Contains("legal: hf, meta, mine;"));
  ::unsetenv("FPTRAIN_CONFIGS");
  fs::remove_all(folder);
}

TEST_CASE("docs/mapping-files.md is current", "[config][docs]") {
  INFO("make it with: fptrain config docs --mapping --out docs/mapping-files.md");
  CHECK(read_file(FP_SOURCE_DIR "/docs/mapping-files.md") == mapping_reference());
}

}  // namespace
}  // namespace fp
