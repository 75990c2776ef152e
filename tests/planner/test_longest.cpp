// What the planner chooses to save memory of activations, and the longest sequence that fits.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "planner/candidates.h"
#include "planner/longest.h"
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

TEST_CASE("savings go from recomputation to chunks of the sequence, each needing less memory", "[planner]") {
  const RunSpec spec = long_spec();
  const ClusterSpec cluster = gpus_of(80);
  const std::vector<Plan> list = savings(spec, plan_of(spec), cluster);
  REQUIRE(list.size() >= 6);
  CHECK(list[1].recompute == Recompute::selective);
  CHECK(list[2].recompute == Recompute::full);
  CHECK(list[3].mlp_tile_tokens == 512);
  CHECK(list[4].activations == Offload::host);
  CHECK(list[5].sequence_chunk_tokens == 65536);
  Estimator estimator(cluster);
  int64_t before = INT64_MAX;
  for (const Plan& p : list) {
    CAPTURE(describe(p));
    CHECK(is_legal(spec, p, 1));
    const int64_t now = estimator.memory(with_plan(spec, p), 1).bytes;
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("keys of memory that are written stay, and CPUs offload nothing", "[planner]") {
  const RunSpec spec = long_spec("memory: {mlp_tile_tokens: 100}, parallel: {auto: [memory]}");
  ClusterSpec cluster = gpus_of(80);
  for (const Plan& p : savings(spec, plan_of(spec), cluster)) CHECK(p.mlp_tile_tokens == 100);
  cluster.device = ClusterDevice::cpu;
  for (const Plan& p : savings(spec, plan_of(spec), cluster)) CHECK(p.activations == Offload::none);
  const RunSpec closed = long_spec("memory: {recompute: selective}");
  CHECK(savings(closed, plan_of(closed), cluster).size() == 1);
}

TEST_CASE("the planner saves memory of activations only as far as a plan must to fit", "[planner]") {
  const RunSpec spec = long_spec();
  for (const double gib : {80.0, 11.0, 5.0, 3.2}) {
    const ClusterSpec cluster = gpus_of(gib);
    Estimator estimator(cluster);
    const Search found = search(spec, 1, cluster, estimator);
    CAPTURE(gib);
    REQUIRE(found.best);
    const std::vector<Plan> list = savings(spec, plan_of(spec), cluster);
    const auto chosen = std::ranges::find(list, found.best->plan);
    REQUIRE(chosen != list.end());
    CAPTURE(describe(*chosen));
    CHECK(found.best->estimate.memory.fits());
    for (auto p = list.begin(); p != chosen; ++p) {
      const Estimate e = estimator.estimate(with_plan(spec, *p), 1);
      CHECK((!e.memory.fits() || e.time.total >= found.best->estimate.time.total));
    }
  }
}

TEST_CASE("the longest sequence fits, and the next one does not with all savings", "[planner]") {
  const RunSpec spec = long_spec();
  ClusterSpec cluster = gpus_of(3);
  cluster.host_memory_gib = 2;
  Estimator estimator(cluster);
  const Longest found = longest_sequence(spec, 1, cluster, estimator);
  REQUIRE(found.tokens > 0);
  CHECK(found.estimate.spec.data.seq_len == found.tokens);
  CHECK(estimator.memory(found.estimate.spec, 1).fits());
  REQUIRE(found.too_long > found.tokens);
  CHECK(found.too_long - found.tokens <= std::max<int64_t>(1024, found.tokens / 16));
  CHECK_FALSE(found.beyond.fits());
}

TEST_CASE("positions that are learned limit the longest sequence", "[planner]") {
  const RunSpec spec = parse_run_spec(
      "{model: {layers: 2, hidden: 64, heads: 4, vocab: 512, max_position: 3072}, data: {seq_len: 1024}, memory: auto}",
      "t");
  const ClusterSpec cluster = gpus_of(80);
  Estimator estimator(cluster);
  const Longest found = longest_sequence(spec, 1, cluster, estimator);
  CHECK(found.tokens == 3072);
  CHECK(found.too_long == 0);
}
