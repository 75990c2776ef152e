// Cluster descriptions: strict parsing, round trips through dump(), and the shipped files.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "config/cluster/cluster.h"
#include "config/cluster/cluster_fields.h"
#include "config/fields/reference.h"
#include "expect.h"

namespace fp {
namespace {

std::string file(const std::string& path) {
  std::ifstream in(std::string(FP_SOURCE_DIR "/") + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

NodeProfile profile(int64_t ranks) {
  NodeProfile p;
  p.ranks = ranks;
  for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight"})
    p.products.push_back({op, "fp32", 1.5, 10, 20, 30, 4});
  p.ops.push_back({"other", "", 10, 0, 1});
  p.ops.push_back({"attention", "bf16", 0, 2, 1});
  if (ranks > 1) p.links.push_back({"ranks", "any", 5, 1.25});
  return p;
}

ClusterSpec small() {
  ClusterSpec s;
  s.name = "two cores";
  s.source = "made up: \"quoted\"";
  s.device = ClusterDevice::cpu;
  s.nodes = 1;
  s.ranks_per_node = 2;
  s.memory_gib = 8;
  s.overlaps = false;
  s.profiles = {profile(1), profile(2)};
  return s;
}

std::string refusal(const std::string& text) {
  try {
    parse_cluster(text, "c.yaml");
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

template <class Change>
std::string refusal_of(Change change) {
  ClusterSpec s = small();
  change(s);
  try {
    validate(s);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("the dump of a cluster description parses to an equal value", "[config][cluster]") {
  const ClusterSpec s = small();
  CHECK(parse_cluster(dump(s), "dump") == s);
  CHECK_NOTHROW(validate(s));
}

TEST_CASE("all mistakes of a cluster file are reported at once with their places", "[config][cluster]") {
  std::string text = dump(small());
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != text.npos);
    text.replace(text.find(from), from.size(), to);
  };
  replace("memory_gib: 8", "memory_gb: 8");
  replace("device: cpu", "device: gpu");
  replace("op: linear_backward_input", "op: linear_bacward_input");
  replace("ranks: 2", "ranks: 1");
  const std::string e = refusal(text);
  CHECK_THAT(e, says("c.yaml:6:1: unknown key 'memory_gb'. Did you mean 'memory_gib'?"));
  CHECK_THAT(e, says("5 problems"));
  CHECK_THAT(e, says("memory_gib must be given"));
  CHECK_THAT(e, says("c.yaml:3:9: device: 'gpu' is not known; legal: text one of cuda, cpu"));
  CHECK_THAT(e, says("did you mean 'linear_backward_input'?"));
  CHECK_THAT(e, says("profiles[1].ranks = 1 must be greater than in the profile before it"));
  CHECK_THAT(refusal("memory_gib: 1e30"),
             says("c.yaml:1:13: memory_gib: 1e30 is out of range; legal: number from 0 to 1048576"));
  CHECK_THAT(refusal("host_memory_gib: 1e7"), says("host_memory_gib: 1e7 is out of range"));
  CHECK_THAT(refusal("reserved_gib: 1e7"), says("reserved_gib: 1e7 is out of range"));
  CHECK_THAT(refusal(""), says("c.yaml:1:1: the file is empty: a cluster description has name"));
  CHECK_THAT(refusal("- 1"), says("must be a map of keys"));
  CHECK_THAT(refusal("tflops: 3"), says("Did you mean 'profiles[].products[].tflops'?"));
}

TEST_CASE("missing or contradictory rates of a cluster are refused", "[config][cluster]") {
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles.clear(); }), says("profiles must have at least one"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[0].products.clear(); }),
             says("profiles[0].products must have the three products"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[1].products.pop_back(); }),
             says("profiles[1].products has fp32 products but no linear_backward_weight"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[0].products.push_back(s.profiles[0].products[0]); }),
             says("profiles[0].products[3] is for linear in fp32, as profiles[0].products[0] is"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[0].ops.push_back(s.profiles[0].ops[0]); }),
             says("profiles[0].ops[2] is for other, as profiles[0].ops[0] is"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[0].ops[0].compute = "fp16"; }),
             says("profiles[0].ops[0].compute: 'fp16' is not known; legal: bf16, fp32, or empty"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[1].links.clear(); }),
             says("profiles[1].links, for 2 ranks of a node, must have rates between ranks"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.profiles[1].links[0].kind = "send"; }),
             says("kind any, or also all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, host"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.nodes = 0; }), says("must have rates between nodes"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.ranks_per_node = 1; }),
             says("profiles[1].ranks = 2 is over ranks_per_node = 1"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.reserved_gib = 9; }), says("reserved_gib = 9 is over memory_gib = 8"));
  CHECK_THAT(refusal_of([](ClusterSpec& s) { s.name.clear(); }), says("name must not be empty"));
}

TEST_CASE("each repeated entry of a cluster's lists is reported once", "[config][cluster]") {
  const std::string e = refusal_of([](ClusterSpec& s) {
    const size_t before = s.profiles[0].ops.size();
    s.profiles[0].ops.resize(before + 500, s.profiles[0].ops.back());
  });
  CHECK_THAT(e, says("500 problems"));
}

TEST_CASE("a cluster description can have rates for every op that is counted", "[config][cluster]") {
  std::set<std::string> legal;
  const auto add_choices = [&](auto rates) {
    const Fields fields = fields_of(rates);
    for (const std::string_view name : fields.find("op")->info.choices) CHECK(legal.emplace(name).second);
  };
  add_choices(ProductRates());
  add_choices(OpRates());
  std::set<std::string> counted = {"other"};
  const std::string text = file("lib/base/op_list.h") + file("lib/base/optimizer_list.h");
  const size_t fused = text.find("#define FP_FUSED_OPS"), after_fused = text.find("\n\n", fused);
  REQUIRE(after_fused != std::string::npos);
  const std::string unfused = text.substr(0, fused) + text.substr(after_fused);
  const std::regex line(R"((?:\n |\(X\)) X\(\w+, (\w+)\))");
  for (std::sregex_iterator it(unfused.begin(), unfused.end(), line), end; it != end; ++it) counted.insert((*it)[1]);
  CHECK(counted.size() > 30);
  CHECK(legal == counted);
  CHECK(!legal.contains("linear_gelu"));
}

TEST_CASE("the shipped cluster files are legal and declare whether they were measured", "[config][cluster]") {
  for (const std::string name : {"dgx-a100", "dgx-h100", "gh200", "laptop", "one-h100", "one-h200"}) {
    CAPTURE(name);
    const std::string path = "configs/clusters/" + name + ".yaml";
    const ClusterSpec s = load_cluster(FP_SOURCE_DIR "/" + path);
    CHECK(s.name == name);
    const bool measured = name == "one-h200";
    CHECK_THAT(s.source, says(measured ? "measured by fptrain" : "not measured"));
    CHECK_THAT(file(path), says(measured ? "Measured with" : "not measured by us"));
    CHECK(s.profiles.back().ranks == s.ranks_per_node);
  }
}

TEST_CASE("docs/cluster-spec.md is current", "[config][docs]") {
  INFO("make it with: fptrain config docs --cluster --out docs/cluster-spec.md");
  CHECK(file("docs/cluster-spec.md") == cluster_reference());
}

}  // namespace fp
