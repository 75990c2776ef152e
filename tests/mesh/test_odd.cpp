// Sizes that do not divide evenly train like one rank, or are refused with the legal values.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "mesh/mesh_run.h"
#include "sharding/arrange.h"

using namespace fp;
using namespace fp::test;

namespace {

void check_like_one(const ModelSection& m, const MeshPlan& plan) {
  CAPTURE(plan.text());
  MeshPlan alone;
  alone.length = plan.length;
  alone.samples = plan.samples;
  alone.steps = plan.steps;
  alone.documents = plan.documents;
  alone.executor = plan.executor;
  const MeshResult one = run_mesh(m, alone), many = run_mesh(m, plan);
  CHECK(many.norms[0] == Approx(one.norms[0]).epsilon(2e-6));
  for (size_t i = 0; i < one.losses.size(); ++i) CHECK(many.losses[i] == Approx(one.losses[i]).epsilon(1e-5));
  CHECK(worst_difference(one, many) < 1e-5);
}

MeshPlan plan_of(int tp, int sp, int dp, int zero, bool megatron = false) { return {tp, sp, dp, zero, megatron}; }

std::string refusal(const std::string& yaml, int ranks) {
  try {
    RunSpec spec = parse_run_spec(yaml, "t");
    arrange(spec, ranks);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

constexpr const char* kLlama = "model: {family: llama, layers: 2, hidden: 64, heads: 8, kv_heads: 2, ffn: 128}\n";

}  // namespace

TEST_CASE("6 heads with 2 kv heads train on 4 tensor-parallel ranks", "[mesh]") {
  ModelSection m = shared_model("llama");
  m.hidden = 24;
  m.heads = 6;
  check_like_one(m, plan_of(4, 1, 2, 1, true));
  check_like_one(m, plan_of(4, 1, 1, 0));
}

TEST_CASE("10 kv heads train on 4 tensor-parallel ranks", "[mesh]") {
  ModelSection m = shared_model("phi3");
  m.hidden = 80;
  m.heads = 20;
  m.kv_heads = 10;
  check_like_one(m, plan_of(4, 2, 1, 3));
  check_like_one(m, plan_of(4, 1, 1, 0, true));
}

TEST_CASE("a vocabulary of 50257 trains on 4 tensor-parallel ranks", "[mesh]") {
  ModelSection m = shared_model("gpt");
  m.hidden = 16;
  m.head_dim = 2;
  m.vocab = 50257;
  m.pad_vocab_to = GENERATE(1, 128);
  MeshPlan p = plan_of(4, 1, 1, 0);
  p.steps = 4;
  check_like_one(m, p);
}

TEST_CASE("heads that do not divide evenly train on sequence-parallel ranks", "[mesh]") {
  ModelSection m = shared_model("llama");
  m.hidden = 28;
  m.heads = 7;
  m.kv_heads = GENERATE(1, 7);
  check_like_one(m, plan_of(1, 3, 1, 0));
  check_like_one(m, plan_of(1, 4, 2, 2));
}

TEST_CASE("sequences that do not divide are padded and the padding has no effect", "[mesh][slow]") {
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const ModelSection m = shared_model(family);
  MeshPlan p = plan_of(1, 3, 1, 0);
  p.length = 13;
  p.documents = GENERATE(false, true);
  check_like_one(m, p);
  p.tp = 2;
  p.megatron = true;
  check_like_one(m, p);
}

TEST_CASE("sequences of 1000 train on 3 sequence-parallel ranks", "[mesh][slow]") {
  ModelSection m = shared_model("llama");
  m.max_position = 1024;
  MeshPlan p = plan_of(1, 3, 1, 0);
  p.length = 1000;
  p.steps = 3;
  check_like_one(m, p);
}

TEST_CASE("packed documents train across sequence-parallel ranks", "[mesh]") {
  const ModelSection m = shared_model(GENERATE("gpt", "llama", "phi3"));
  MeshPlan p = plan_of(2, 2, 1, 2, true);
  p.documents = true;
  check_like_one(m, p);
}

TEST_CASE("phi-3-small's blocksparse heads keep their global index on a mesh", "[mesh]") {
  ModelSection m = tiny_model("phi3small");
  m.hidden = 32;
  m.heads = 8;
  m.kv_heads = 4;
  check_like_one(m, plan_of(2, 2, 2, 1, true));
  check_like_one(m, plan_of(4, 2, 1, 3));
  check_like_one(m, plan_of(1, 8, 1, 0));
}

// With two kv heads, four tensor- or sequence-parallel ranks hold copies of them.
TEST_CASE("biases of queries and keys, windows and norms of heads train on a mesh", "[mesh]") {
  const std::string family = GENERATE("qwen2", "mistral", "qwen3");
  const ModelSection m = shared_model(family);
  CAPTURE(family);
  MeshPlan p = plan_of(2, 2, 2, 3, true);
  p.recompute = Recompute::selective;
  check_like_one(m, p);
  check_like_one(m, plan_of(4, 1, 2, 0));
  p = plan_of(1, 4, 1, 2);
  p.recompute = Recompute::full;
  p.documents = true;
  check_like_one(m, p);
  p = plan_of(2, 1, 1, 0);
  p.pipeline.ranks = 2;
  p.pipeline.schedule = PipelineSchedule::zb_h1;
  check_like_one(m, p);
}

TEST_CASE("dropout does not depend on the mesh", "[mesh]") {
  ModelSection m = shared_model(GENERATE("gpt", "llama", "phi3"));
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0.1;
  check_like_one(m, plan_of(2, 2, 2, 2, true));
  MeshPlan p = plan_of(2, 3, 1, 0, true);
  p.length = 13;
  check_like_one(m, p);
}

TEST_CASE("DPO trains with rows split over several ranks", "[mesh]") {
  const ModelSection m = shared_model("llama");
  for (MeshPlan p : {plan_of(2, 2, 1, 1, true), plan_of(1, 2, 2, 3), plan_of(2, 1, 1, 0)}) {
    p.samples = 8;
    p.executor.loss.dpo = DpoSpec{0.3, 0.1, 0.2, ""};
    check_like_one(m, p);
  }
}

TEST_CASE("z-loss and bf16 train reproducibly on every ZeRO stage", "[mesh][slow]") {
  const ModelSection m = shared_model("llama");
  for (const DType gradients : {DType::f32, DType::bf16})
    for (const int zero : {0, 1, 2, 3}) {
      MeshPlan p = plan_of(2, 2, 2, zero, true);
      p.compute = DType::bf16;
      p.gradients = gradients;
      p.executor.loss.z_loss = 1e-3;
      MeshPlan alone;
      alone.compute = DType::bf16;
      alone.executor.loss.z_loss = 1e-3;
      const MeshResult one = run_mesh(m, alone), many = run_mesh(m, p);
      CAPTURE(p.text(), name_of(gradients));
      CHECK(many.losses[0] == Approx(one.losses[0]).epsilon(2 * 0.0078125));  // rounding of bf16, no drift yet
      CHECK(run_mesh(m, p) == many);
    }
}

TEST_CASE("impossible meshes are refused with the key and the legal values", "[mesh]") {
  const std::string llama = kLlama;
  CHECK_THAT(refusal(llama + "parallel: {tensor: 16}", 16),
             Catch::Contains("parallel.tensor = 16") && Catch::Contains("use 1 to 8"));
  CHECK_THAT(refusal(llama + "parallel: {sequence: 12}", 12),
             Catch::Contains("parallel.sequence = 12") && Catch::Contains("use 1 to 8"));
  CHECK_THAT(refusal(llama + "parallel: {tensor: 4, sequence: 3}", 12),
             Catch::Contains("parallel.sequence = 3") && Catch::Contains("use 1 to 2"));
  CHECK_THAT(refusal(llama + "parallel: {tensor: 2}", 3),
             Catch::Contains("tensor 2 = 2,") && Catch::Contains("has 3") && Catch::Contains("mpirun -np 2"));
  CHECK_THAT(refusal(llama + "parallel: {tensor: 2, data: 0}", 3), Catch::Contains("not a multiple of 2"));
  CHECK_THAT(refusal(llama + "parallel: {data: 0}", 3),
             Catch::Contains("train.global_batch = 8") && Catch::Contains("multiple of"));
  CHECK_THAT(refusal("model: {preset: phi-3-small-8k}\nparallel: {tensor: 16}", 16),
             Catch::Contains("parallel.tensor = 16") && Catch::Contains("use 1 to 8"));
  CHECK(refusal(llama + "parallel: {tensor: 4, sequence: 2, data: 0}\ntrain: {micro_batch: 2}", 16) == "accepted");
}
