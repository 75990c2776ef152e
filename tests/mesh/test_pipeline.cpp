// Training in a pipeline equals training on one rank, for every schedule and combined with every other parallelism.
#include <catch2/catch.hpp>
#include <map>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

ModelSection layered_model(const std::string& family, int64_t layers) {
  ModelSection m = shared_model(family);
  m.layers = layers;
  return m;
}

struct Kind {
  PipelineSchedule schedule;
  int chunks = 0;
  bool w_pass = false;
};

const std::vector<Kind> kKinds = {{PipelineSchedule::gpipe},
                                  {PipelineSchedule::one_f_one_b},
                                  {PipelineSchedule::interleaved, 2},
                                  {PipelineSchedule::bfs, 2},
                                  {PipelineSchedule::zb_h1},
                                  {PipelineSchedule::zb_h2},
                                  {PipelineSchedule::zb_v},
                                  {PipelineSchedule::interleaved_zb, 2},
                                  {PipelineSchedule::chimera},
                                  {PipelineSchedule::bitpipe},
                                  {PipelineSchedule::dualpipe},
                                  {PipelineSchedule::dualpipev},
                                  {PipelineSchedule::zeropp, 2},
                                  {PipelineSchedule::wave, 4},
                                  {PipelineSchedule::chimera, 0, true},
                                  {PipelineSchedule::bitpipe, 0, true},
                                  {PipelineSchedule::one_f_one_b, 0, true}};

MeshPlan piped(const Kind& k, int ranks, int64_t micro_batches) {
  MeshPlan p;
  p.pipeline.ranks = ranks;
  p.pipeline.schedule = k.schedule;
  p.pipeline.chunks = k.chunks;
  p.pipeline.w_pass = k.w_pass;
  p.micro_batches = micro_batches;
  p.samples = micro_batches;
  p.length = 6;
  return p;
}

// Returns the plan with the same batches on one rank.
MeshPlan alone(MeshPlan p) {
  p.micro_batches *= p.dp;
  p.tp = p.sp = p.dp = 1;
  p.zero = 0;
  p.megatron = false;
  p.pipeline = {};
  return p;
}

}  // namespace

namespace {

void check_every_schedule(const std::string& family, int ranks) {
  INFO(family << ", " << ranks << " ranks");
  const ModelSection m = layered_model(family, ranks == 2 ? 7 : 9);
  const int64_t micro_batches = 2 * ranks;
  const MeshResult one = run_mesh(m, alone(piped({PipelineSchedule::one_f_one_b}, ranks, micro_batches)));
  for (const Kind& k : kKinds) {
    Kind fitting = k;
    if (fitting.chunks * ranks > m.layers) fitting.chunks = 2;
    check_trains_like(m, piped(fitting, ranks, micro_batches), one);
  }
}

}  // namespace

TEST_CASE("schedules train like one rank", "[pipeline]") { check_every_schedule("gpt", 2); }

TEST_CASE("between nodes, tensor-parallel ranks each send their part between stages, and train the same",
          "[pipeline]") {
  const ModelSection m = layered_model("llama", 7);
  for (const Kind& k :
       {Kind{PipelineSchedule::one_f_one_b}, Kind{PipelineSchedule::zb_v}, Kind{PipelineSchedule::bitpipe}}) {
    MeshPlan p = piped(k, 2, 4);
    p.tp = 2;
    const MeshResult whole = run_mesh(m, p);
    p.ranks_per_node = 2;
    CAPTURE(p.text());
    const MeshResult parts = run_mesh(m, p);
    CHECK(parts == whole);
    CHECK(count_mesh(m, p).traffic == parts.traffic);
    CHECK(count_mesh(m, p).peaks == parts.peaks);
    CHECK(run_mesh(m, hampered(p)) == whole);
    const auto sent = [](const MeshResult& r, const std::string& group, CommKind kind) {
      const auto it = r.traffic[0].find({group, kind});
      return it == r.traffic[0].end() ? int64_t{0} : it->second.bytes;
    };
    CHECK(2 * sent(parts, "stages", CommKind::send) == sent(whole, "stages", CommKind::send));
    // A rank gathers what it receives, as much as its peer sends.
    CHECK(sent(parts, "tensor", CommKind::all_gather) - sent(whole, "tensor", CommKind::all_gather) ==
          sent(parts, "stages", CommKind::send));
    MeshPlan rows = p;
    rows.megatron = true;  // each already sends its own rows
    CHECK(sent(run_mesh(m, rows), "stages", CommKind::send) == sent(parts, "stages", CommKind::send));
  }
}

TEST_CASE("every schedule trains every family like one rank", "[pipeline][slow]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const int ranks = GENERATE(2, 4);
  check_every_schedule(family, ranks);
}

TEST_CASE("pipelines of eight ranks train like one rank", "[pipeline][slow]") {
  const ModelSection m = layered_model("llama", 15);
  const MeshResult one = run_mesh(m, alone(piped({PipelineSchedule::one_f_one_b}, 8, 16)));
  for (const Kind& k : {Kind{PipelineSchedule::interleaved, 2}, Kind{PipelineSchedule::zb_v},
                        Kind{PipelineSchedule::bitpipe, 0, true}, Kind{PipelineSchedule::zeropp, 2}})
    check_trains_like(m, piped(k, 8, 16), one);
}

namespace {

// The other parallelism with which a pipeline of two is combined.
struct Combination {
  int tp = 1, sp = 1, dp = 1, zero = 0;
  bool megatron = false;
  Recompute recompute = Recompute::none;
};

const std::vector<Combination> kCombinations = {{2, 1, 1, 0},
                                                {1, 2, 1, 1},
                                                {1, 1, 2, 1},
                                                {1, 1, 2, 3},
                                                {2, 2, 1, 0, true},
                                                {2, 1, 2, 1, true, Recompute::selective},
                                                {1, 2, 2, 3, false, Recompute::full},
                                                {1, 1, 2, 2},
                                                {2, 1, 2, 3}};

MeshPlan combined(MeshPlan p, const Combination& c) {
  p.tp = c.tp;
  p.sp = c.sp;
  p.dp = c.dp;
  p.zero = c.zero;
  p.megatron = c.megatron;
  p.recompute = c.recompute;
  p.samples = p.micro_batches * c.dp;
  return p;
}

void check_combinations(const std::string& family, const std::vector<Kind>& kinds, size_t every) {
  const ModelSection m = layered_model(family, 7);
  std::map<int, MeshResult> one;  // by data-parallel ranks
  for (const int dp : {1, 2})
    one[dp] = run_mesh(m, alone(combined(piped({PipelineSchedule::one_f_one_b}, 2, 4), {1, 1, dp, 0})));
  size_t number = 0;
  for (const Kind& k : kinds)
    for (const Combination& c : kCombinations)
      if (number++ % every == 0) check_trains_like(m, combined(piped(k, 2, 4), c), one.at(c.dp));
}

}  // namespace

// Half of three families x 17 schedules x 9 combinations.
TEST_CASE("every schedule trains with every other parallelism", "[pipeline][nightly]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  INFO(family);
  check_combinations(family, kKinds, 2);
}

TEST_CASE("some schedules train with other parallelism", "[pipeline][slow]") {
  check_combinations("phi3",
                     {{PipelineSchedule::one_f_one_b},
                      {PipelineSchedule::interleaved_zb, 2},
                      {PipelineSchedule::zb_v},
                      {PipelineSchedule::zeropp, 2},
                      {PipelineSchedule::bitpipe, 0, true}},
                     4);
}
