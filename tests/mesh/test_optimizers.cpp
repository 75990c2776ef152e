// The optimizers other than AdamW, which the other files use.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

MeshPlan with_muon(MeshPlan p) {
  p.optimizer.kind = OptimizerKind::muon;
  return p;
}

MeshPlan muon_pipeline(PipelineSchedule s, MeshPlan p = {}) {
  p.micro_batches = 4;
  p.samples = 4 * p.dp;
  return with_muon(piped(s, p));
}

// Attention heads and a feed-forward network that do not divide evenly.
ModelSection uneven_model() {
  ModelSection m = shared_model("llama");
  m.hidden = 24;
  m.heads = 6;
  return m;
}

}  // namespace

TEST_CASE("lion has the same bits under every ZeRO stage and with offloaded state", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (const DType compute : {DType::f32, DType::bf16}) {
    // Where a sign depends on the order of a sum, whole steps do; with one micro-batch and no norm there is one order.
    MeshPlan plan{.dp = 2, .compute = compute, .micro_batches = 1, .steps = 8, .lr = 1e-3};
    plan.optimizer.kind = OptimizerKind::lion;
    plan.optimizer.grad_clip = 0;
    plan.states = true;
    const MeshResult zero_0 = run_mesh(m, plan);
    CHECK(zero_0.states.size() == zero_0.params.size());
    for (const int zero : {1, 2, 3}) {
      plan.zero = zero;
      for (const bool offload : {false, true}) {
        plan.offload = offload;
        CAPTURE(plan.text(), offload);
        const MeshResult other = run_mesh(m, plan);
        CHECK(other.params == zero_0.params);
        CHECK(other.states == zero_0.states);
      }
    }
  }
}

TEST_CASE("muon trains on a mesh like on one rank", "[mesh]") {
  for (const char* const family : {"gpt", "phi3"}) {
    const ModelSection m = shared_model(family);
    const MeshResult one = run_mesh(m, with_muon({}));
    CAPTURE(family);
    for (const MeshPlan& plan : {MeshPlan{2, 2, 2, 3, true}, MeshPlan{1, 1, 2, 1}, MeshPlan{4, 1, 1, 0, true}})
      check_trains_like(m, with_muon(plan), one);
  }
  // Four ranks hold copies of two kv heads, and 2, 2, 1 and 1 of six heads.
  const ModelSection uneven = uneven_model();
  const MeshResult one = run_mesh(uneven, with_muon({}));
  check_trains_like(uneven, with_muon({4, 1, 2, 1, true}), one);
  check_trains_like(uneven, muon_pipeline(PipelineSchedule::zb_h1, {.tp = 2}), one);
}

TEST_CASE("muon trains on every mesh of up to 8 ranks like on one rank", "[mesh][nightly]") {
  // No family with biases of keys and rotary positions: those biases begin at 0 and have gradients near rounding.
  for (const ModelSection& m : {shared_model("gpt"), shared_model("phi3"), shared_model("mistral"), uneven_model()}) {
    const MeshResult one = run_mesh(m, with_muon({}));
    CAPTURE(m.family, m.heads);
    for (const MeshPlan& plan : all_plans())
      if (m.heads == 8 || plan.tp * plan.sp <= 4) check_trains_like(m, with_muon(plan), one);
  }
  ModelSection m = shared_model("llama");
  m.layers = 8;
  const MeshResult one[] = {run_mesh(m, with_muon({})), run_mesh(m, with_muon({.samples = 8}))};
  for (const PipelineSchedule s : {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_v, PipelineSchedule::chimera,
                                   PipelineSchedule::bitpipe, PipelineSchedule::dualpipe, PipelineSchedule::zeropp})
    for (const MeshPlan& plan : {MeshPlan{.tp = 2}, MeshPlan{.sp = 2, .zero = 1}, MeshPlan{.dp = 2, .zero = 1},
                                 MeshPlan{.dp = 2, .zero = 2}, MeshPlan{.tp = 2, .dp = 2, .zero = 3}}) {
      MeshPlan p = muon_pipeline(s, plan);
      if (s == PipelineSchedule::zeropp) p.pipeline.chunks = 2;
      check_trains_like(m, p, one[p.dp - 1]);
    }
}

TEST_CASE("muon computes the same bits with offloaded state and checked sums", "[mesh]") {
  const ModelSection m = uneven_model();
  for (const DType compute : {DType::f32, DType::bf16})
    for (MeshPlan plan : {MeshPlan{}, MeshPlan{.tp = 2, .dp = 2, .zero = 1}, MeshPlan{.dp = 2, .zero = 3}}) {
      plan.compute = compute;
      plan.steps = 3;
      plan.states = true;
      plan = with_muon(plan);
      CAPTURE(plan.text());
      const MeshResult resident = run_mesh(m, plan);
      plan.executor.check_sums = plan.offload = plan.poison = true;
      CHECK(run_mesh(m, plan) == resident);
      plan.subgroup_elements = 200;
      CHECK(run_mesh(m, plan) == resident);
      for (const auto& [name, values] : resident.states)
        if (std::ranges::any_of(values, [](float v) { return std::isnan(v); })) FAIL("NaN in " << name);
    }
}

TEST_CASE("muon rounds offloaded master weights with the same random numbers", "[mesh]") {
  MeshPlan plan = with_muon({.dp = 2, .compute = DType::bf16, .steps = 4});
  plan.executor.rounding_seed = 3;
  plan.subgroup_elements = 1000;
  const MeshResult resident = run_mesh(shared_model("llama"), plan);
  plan.offload = true;
  CHECK(run_mesh(shared_model("llama"), plan) == resident);
}

TEST_CASE("the dry run predicts memory and traffic of every rank under muon", "[mesh]") {
  const ModelSection m = uneven_model();
  for (const DType compute : {DType::f32, DType::bf16})
    for (MeshPlan plan :
         {MeshPlan{}, MeshPlan{.tp = 4, .dp = 2, .zero = 1}, MeshPlan{.tp = 2, .dp = 2},
          MeshPlan{.sp = 2, .dp = 2, .zero = 3}, muon_pipeline(PipelineSchedule::one_f_one_b, {.tp = 2})})
      for (const bool offload : {false, true}) {
        plan.compute = compute;
        plan.offload = offload;
        plan.steps = 2;
        plan = with_muon(plan);
        CAPTURE(plan.text(), offload);
        const MeshResult real = run_mesh(m, plan), counted = count_mesh(m, plan);
        CHECK(real.peaks == counted.peaks);
        CHECK(real.host_peaks == counted.host_peaks);
        CHECK(real.traffic == counted.traffic);
      }
}

TEST_CASE("matrices are divided over the ranks by the cost of orthogonalizing them", "[mesh]") {
  const std::vector<double> costs = {1, 5, 2, 2, 4, 3, 1};
  const std::vector<int> owners = balanced_owners(costs, 3);
  std::vector<double> loads(3);
  for (size_t i = 0; i < costs.size(); ++i) loads[static_cast<size_t>(owners[i])] += costs[i];
  CHECK(loads == std::vector<double>{6, 6, 6});
  // Each projection of a fused tensor is a matrix by itself; vectors, embeddings and the LM head are none.
  ParamTable gpt, phi3;
  declare_parameters(shared_model("gpt"), gpt);
  declare_parameters(shared_model("phi3"), phi3);
  const auto sizes = [](const ParamTable& table) {
    std::vector<std::pair<std::string, int64_t>> list;
    for (const MuonMatrix& m : muon_matrices(table))
      if (table[m.id].layer == 0) list.emplace_back(table[m.id].name, m.rows);
    return list;
  };
  CHECK(sizes(gpt) == std::vector<std::pair<std::string, int64_t>>{{"h.0.attn.c_attn.weight", 32},
                                                                   {"h.0.attn.c_attn.weight", 32},
                                                                   {"h.0.attn.c_attn.weight", 32},
                                                                   {"h.0.attn.c_proj.weight", 32},
                                                                   {"h.0.mlp.c_fc.weight", 24},
                                                                   {"h.0.mlp.c_proj.weight", 32}});
  CHECK(sizes(phi3).size() == 7);
}
