// The savings of memory that the planner chooses of, the longest sequence and the largest model that fit.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "config/model_facts.h"
#include "planner/candidates.h"
#include "planner/largest.h"
#include "planner/savings.h"
#include "small_cluster.h"

using namespace fp;

namespace {

RunSpec long_spec(const std::string& more = "memory: auto") {
  return parse_run_spec(
      "{model: {family: llama, layers: 6, hidden: 512, heads: 8, kv_heads: 2, ffn: 1408, vocab: 4096, max_position: "
      "1048576}, data: {seq_len: 131072}, train: {global_batch: 1, micro_batch: 1}, " +
          more + "}",
      "t");
}

ClusterSpec gpus_of(double gib) {
  ClusterSpec c = small_cluster(4);
  c.memory_gib = gib;
  c.host_memory_gib = 64;
  c.headroom = 0;
  return c;
}

}  // namespace

TEST_CASE("savings combine places of the state with those of activations, and need less memory", "[planner]") {
  const RunSpec spec = long_spec();
  const ClusterSpec cluster = gpus_of(80);
  const std::vector<Plan> list = Savings(spec, 1, cluster).of(plan_of(spec));
  REQUIRE(list.size() % 3 == 0);
  REQUIRE(list.size() >= 21);
  CHECK(list[0] == Savings(spec, 1, cluster).without(list.back()));
  CHECK(list[1].recompute == Recompute::selective);
  CHECK(list[2].recompute == Recompute::full);
  CHECK(list[3].mlp_tile_tokens == 512);
  CHECK(list[4].sequence_chunk_tokens == 65536);
  Estimator estimator(cluster);
  std::vector<RankMemory> memory;
  for (size_t i = 0; i < list.size(); ++i) {
    CAPTURE(describe(list[i]));
    CHECK(is_legal(spec, list[i], 1));
    CHECK(list[i].optimizer == (i < list.size() / 3 ? Offload::none : Offload::host));
    CHECK(list[i].weights == (i < list.size() / 3 * 2 ? Offload::none : Offload::host));
    CHECK(list[i].subgroup == (list[i].optimizer == Offload::host ? 262144 : Plan().subgroup));
    memory.push_back(estimator.memory(with_plan(spec, list[i]), 1));
    for (size_t j = 0; j < i; ++j) {
      CHECK(list[i] != list[j]);
      CHECK_FALSE(uses_less_memory(list[j], list[i]));
      if (!uses_less_memory(list[i], list[j])) continue;
      // With weights in host memory the update may need the most.
      if (list[i].weights == Offload::host)
        CHECK(memory[i].bytes <= memory[j].bytes);
      else
        CHECK(memory[i].bytes < memory[j].bytes);
    }
  }
}

TEST_CASE("keys of memory that are written stay, and CPUs offload only within a budget", "[planner]") {
  const RunSpec spec = long_spec("memory: {mlp_tile_tokens: 100}, parallel: {auto: [memory]}");
  ClusterSpec cluster = gpus_of(80);
  for (const Plan& p : Savings(spec, 1, cluster).of(plan_of(spec))) CHECK(p.mlp_tile_tokens == 100);
  cluster.device = ClusterDevice::cpu;
  for (const Plan& p : Savings(spec, 1, cluster).of(plan_of(spec)))
    CHECK((p.activations == Offload::none && p.optimizer == Offload::none));
  const RunSpec within = long_spec("memory: {device_gib: 1}");
  const std::vector<Plan> list = Savings(within, 1, cluster).of(plan_of(within));
  CHECK(std::ranges::count(list, Offload::host, &Plan::activations) > 0);
  CHECK(std::ranges::count(list, Offload::host, &Plan::optimizer) > 0);
  const RunSpec closed = long_spec("memory: {recompute: selective}");
  CHECK(Savings(closed, 1, cluster).of(plan_of(closed)).size() == 1);
}

TEST_CASE("state that a spec divides, or whose weights it offloads, is offloaded in every plan", "[planner]") {
  for (const char* offload : {"device_share: 0.5", "subgroup: 5000", "optimizer: host", "weights: host"}) {
    CAPTURE(offload);
    const RunSpec spec = long_spec(fmt::format("memory: {{offload: {{{}}}}}, parallel: {{auto: [memory]}}", offload));
    ClusterSpec cluster = gpus_of(80);
    cluster.host_update_gb_per_s = 40;
    const Candidates candidates(spec, 1, cluster);
    REQUIRE(!candidates.all().empty());
    for (const Plan& p : candidates.all()) {
      CHECK(is_legal(spec, p, 1));
      CHECK(p.optimizer == Offload::host);
      CHECK((p.device_share == 0.5) == (std::string(offload) == "device_share: 0.5"));
      CHECK((p.subgroup == 5000) == (std::string(offload) == "subgroup: 5000"));
    }
  }
}

TEST_CASE("the planner saves memory only as far as a plan must to fit", "[planner][slow]") {
  const RunSpec spec = long_spec();
  for (const double gib : {80.0, 11.0, 5.0, 3.2}) {
    const ClusterSpec cluster = gpus_of(gib);
    Estimator estimator(cluster);
    const Search found = search(spec, 1, cluster, estimator, {1e6, 1000});
    CAPTURE(gib);
    REQUIRE(found.best);
    const std::vector<Plan> list = Savings(spec, 1, cluster).of(plan_of(spec));
    CHECK(std::ranges::find(list, found.best->plan) != list.end());
    CAPTURE(describe(found.best->plan));
    CHECK(found.best->estimate.memory.fits());
    for (const Plan& p : list) {
      const Estimate e = estimator.estimate(with_plan(spec, p), 1);
      CHECK((!e.memory.fits() || e.time.total >= found.best->estimate.time.total));
    }
  }
}

TEST_CASE("the longest sequence fits, and the next one does not with all savings", "[planner][slow]") {
  const RunSpec spec = long_spec();
  ClusterSpec cluster = gpus_of(3);
  cluster.host_memory_gib = 2;
  Estimator estimator(cluster);
  const Largest found = longest_sequence(spec, 1, cluster, estimator);
  REQUIRE(found.size > 0);
  CHECK(found.estimate.spec.data.seq_len == found.size);
  CHECK(estimator.memory(found.estimate.spec, 1).fits());
  REQUIRE(found.too_large > found.size);
  CHECK(found.too_large - found.size <= std::max<int64_t>(1024, found.size / 16));
  CHECK_FALSE(found.beyond.fits());
}

TEST_CASE("positions that are learned limit the longest sequence", "[planner]") {
  const RunSpec spec = parse_run_spec(
      "{model: {layers: 2, hidden: 64, heads: 4, vocab: 512, max_position: 3072}, data: {seq_len: 1024}, memory: auto}",
      "t");
  const ClusterSpec cluster = gpus_of(80);
  Estimator estimator(cluster);
  const Largest found = longest_sequence(spec, 1, cluster, estimator);
  CHECK(found.size == 3072);
  CHECK(found.too_large == 0);
}

TEST_CASE("models are scaled as published ladders are", "[planner]") {
  const auto model = [](const std::string& preset) {
    return parse_run_spec("{model: {preset: " + preset + ", vocab: 50257}}", "t").model;
  };
  const auto shape = [](const ModelSection& m) { return std::tuple(m.hidden, m.heads, m.kv_heads, m.ffn); };
  const ModelSection llama = model("llama-2-7b"), gpt = model("gpt3-6.7b"), grouped = model("llama-3-8b");
  for (const ModelSection& m : {llama, gpt, grouped, model("mistral-7b-v0.3"), model("phi-3-mini-4k")}) {
    CHECK(shape(scaled_model(m, m.layers)) == shape(m));
    int64_t before = 0;
    for (const int64_t layers : {1, 2, 5, 12, 31, 33, 64, 100}) {
      const ModelSection scaled = scaled_model(m, layers);
      CAPTURE(m.name, layers);
      CHECK(scaled.layers == layers);
      CHECK(scaled.heads % scaled.kv_heads == 0);
      CHECK(scaled.heads / scaled.kv_heads == m.heads / m.kv_heads);
      CHECK(scaled.head_dim == m.head_dim);
      if (m.heads * m.head_dim == m.hidden) CHECK(scaled.heads * scaled.head_dim == scaled.hidden);
      CHECK(parameter_count(scaled) > before);
      before = parameter_count(scaled);
    }
  }
  CHECK(shape(scaled_model(llama, 40)) == std::tuple(5120, 40, 40, 13824));  // Llama 2 13B
  CHECK(shape(scaled_model(gpt, 96)) == std::tuple(12288, 96, 96, 49152));   // GPT-3 175B
  CHECK(shape(scaled_model(grouped, 64)) == std::tuple(8192, 64, 16, 28672));
}

TEST_CASE("models that are too small for the degrees do not end the search for the largest", "[planner]") {
  RunSpec spec = long_spec("memory: auto, parallel: {tensor: 2, sequence: 2}");
  spec.model.heads = 16;
  spec.model.kv_heads = 8;
  spec.data.seq_len = 4096;
  ClusterSpec cluster = gpus_of(4);
  Estimator estimator(cluster);
  CHECK_FALSE(is_legal(spec, plan_of(spec), 2));
  RunSpec small = spec;
  small.model = scaled_model(spec.model, 1);
  CHECK_FALSE(is_legal(small, plan_of(small), 4));
  const Largest found = largest_model(spec, 4, cluster, estimator);
  CHECK(found.size > 1);
  CHECK(found.too_large == found.size + 1);
  CHECK(found.beyond.available > 0);
  cluster.memory_gib = 0.8;
  Estimator none(cluster);
  const Largest nothing = largest_model(spec, 4, cluster, none);
  CHECK(nothing.size == 0);
  CHECK(nothing.too_large > 0);
}

TEST_CASE("the largest model fits, and the next one does not with all savings", "[planner]") {
  RunSpec spec = long_spec();
  spec.data.seq_len = 4096;
  ClusterSpec cluster = gpus_of(4);
  int64_t larger = std::numeric_limits<int64_t>::max();
  for (const double host : {64.0, 2.0}) {
    cluster.host_memory_gib = host;
    CAPTURE(host);
    Estimator estimator(cluster);
    const Largest found = largest_model(spec, 1, cluster, estimator);
    REQUIRE(found.size > 0);
    const ModelSection& m = found.estimate.spec.model;
    CHECK(m == scaled_model(spec.model, found.size));
    CHECK(estimator.memory(found.estimate.spec, 1).fits());
    CHECK((found.estimate.spec.memory.offload.optimizer == Offload::host) == (host == 64.0));
    CHECK(found.too_large == found.size + 1);
    CHECK_FALSE(found.beyond.fits());
    CHECK(found.size < larger);  // with less host memory
    larger = found.size;
    RunSpec next = spec;
    next.model = scaled_model(spec.model, found.too_large);
    for (const Plan& p : Savings(next, 1, cluster).of(plan_of(next)))
      CHECK_FALSE(estimator.memory(with_plan(next, p), 1).fits());
  }
}
