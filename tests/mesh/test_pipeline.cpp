// Training through the stages of a pipeline is training on one rank: every schedule, in every company.
#include <catch2/catch.hpp>
#include <map>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::testing;

namespace {

ModelSection layered_model(const std::string& family, int64_t layers) {
  ModelSection m = shared_model(family);
  m.layers = layers;
  return m;
}

struct Kind {
  const char* name;
  int chunks = 0;
  bool w_pass = false;
};

const std::vector<Kind> kKinds = {{"gpipe"},
                                  {"1f1b"},
                                  {"interleaved", 2},
                                  {"bfs", 2},
                                  {"zb-h1"},
                                  {"zb-h2"},
                                  {"zb-v"},
                                  {"interleaved-zb", 2},
                                  {"chimera"},
                                  {"bitpipe"},
                                  {"dualpipe"},
                                  {"dualpipev"},
                                  {"zeropp", 2},
                                  {"wave", 4},
                                  {"chimera", 0, true},
                                  {"bitpipe", 0, true},
                                  {"1f1b", 0, true}};

MeshPlan piped(const Kind& k, int ranks, int64_t micro_batches) {
  MeshPlan p;
  p.pipeline.ranks = ranks;
  p.pipeline.schedule = k.name;
  p.pipeline.chunks = k.chunks;
  p.pipeline.w_pass = k.w_pass;
  p.micro_batches = micro_batches;
  p.samples = micro_batches;
  p.length = 6;
  p.lr = 1e-3;
  p.eps = 1e-4;  // elements with gradients near 0 would turn rounding into whole steps, as data parallelism alone does
  return p;
}

// The same batches on one rank.
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
  const MeshResult one = run_mesh(m, alone(piped({"1f1b"}, ranks, micro_batches)));
  for (const Kind& k : kKinds) {
    Kind fitting = k;
    if (fitting.chunks * ranks > m.layers) fitting.chunks = 2;
    check_trains_like(m, piped(fitting, ranks, micro_batches), one);
  }
}

}  // namespace

TEST_CASE("schedules train like one rank", "[pipeline]") { check_every_schedule("gpt", 2); }

TEST_CASE("every schedule trains every family like one rank", "[pipeline][slow]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const int ranks = GENERATE(2, 4);
  check_every_schedule(family, ranks);
}

TEST_CASE("pipelines of eight ranks train like one rank", "[pipeline][slow]") {
  const ModelSection m = layered_model("llama", 15);
  const MeshResult one = run_mesh(m, alone(piped({"1f1b"}, 8, 16)));
  for (const Kind& k : {Kind{"interleaved", 2}, Kind{"zb-v"}, Kind{"bitpipe", 0, true}, Kind{"zeropp", 2}})
    check_trains_like(m, piped(k, 8, 16), one);
}

namespace {

// What else a pipeline of two is combined with.
struct Company {
  int tp = 1, sp = 1, dp = 1, zero = 0;
  bool megatron = false;
  Recompute recompute = Recompute::none;
};

const std::vector<Company> kCompany = {{2, 1, 1, 0},
                                       {1, 2, 1, 1},
                                       {1, 1, 2, 1},
                                       {1, 1, 2, 3},
                                       {2, 2, 1, 0, true},
                                       {2, 1, 2, 1, true, Recompute::selective},
                                       {1, 2, 2, 3, false, Recompute::full},
                                       {1, 1, 2, 2},
                                       {2, 1, 2, 3}};

MeshPlan accompanied(MeshPlan p, const Company& c) {
  p.tp = c.tp;
  p.sp = c.sp;
  p.dp = c.dp;
  p.zero = c.zero;
  p.megatron = c.megatron;
  p.recompute = c.recompute;
  p.samples = p.micro_batches * c.dp;
  return p;
}

void check_company(const std::string& family, const std::vector<Kind>& kinds, size_t every) {
  const ModelSection m = layered_model(family, 7);
  std::map<int, MeshResult> one;  // by data-parallel ranks
  for (const int dp : {1, 2}) one[dp] = run_mesh(m, alone(accompanied(piped({"1f1b"}, 2, 4), {1, 1, dp, 0})));
  size_t number = 0;
  for (const Kind& k : kinds)
    for (const Company& c : kCompany)
      if (number++ % every == 0) check_trains_like(m, accompanied(piped(k, 2, 4), c), one.at(c.dp));
}

}  // namespace

// Three families x 17 schedules x 9 companies, half of them.
TEST_CASE("every schedule goes with every other cut", "[pipeline][nightly]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  INFO(family);
  check_company(family, kKinds, 2);
}

TEST_CASE("schedules go with other cuts", "[pipeline][slow]") {
  check_company("phi3", {{"1f1b"}, {"interleaved-zb", 2}, {"zb-v"}, {"zeropp", 2}, {"bitpipe", 0, true}}, 4);
}
