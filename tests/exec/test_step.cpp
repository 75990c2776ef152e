// Results that must be equal: recompute policies, micro-batch splits, backends within rounding, decoding and training.
#include <catch2/catch.hpp>
#include <cmath>

#include "exec/rig.h"
#include "model/decoder.h"

using namespace fp;
using namespace fp::test;

namespace {

ModelSection with_dropout(ModelSection m) {
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0.1;
  return m;
}

// Runs three optimizer steps; returns the losses, then all parameters.
std::vector<double> train(Rig& rig, const ModelSection& m, int micro_batch) {
  std::vector<double> trace;
  for (int step = 1; step <= 3; ++step) {
    std::vector<Batch> batches;
    for (int first = 0; first < 4; first += micro_batch) {
      Batch b = random_batch(m, micro_batch, 12, 100 + static_cast<uint64_t>(step), true);
      const Batch whole = random_batch(m, 4, 12, 100 + static_cast<uint64_t>(step), true);
      const auto at = first * 12, end = (first + micro_batch) * 12;
      b.tokens.assign(whole.tokens.begin() + at, whole.tokens.begin() + end);
      b.targets.assign(whole.targets.begin() + at, whole.targets.begin() + end);
      b.sample_ids.assign(whole.sample_ids.begin() + first, whole.sample_ids.begin() + first + micro_batch);
      batches.push_back(b);
    }
    trace.push_back(rig.executor.accumulate(batches).mean());
    const GradientNorm g = rig.executor.gradient_norm();
    REQUIRE(g.finite);
    trace.push_back(g.norm);
    rig.executor.update(OptimizerSection{}, 1e-2, step, g.norm);
  }
  for (const float w : rig.host(rig.model.params().master())) trace.push_back(w);
  return trace;
}

}  // namespace

TEST_CASE("recompute policies give bitwise equal results", "[exec]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  const DType compute = GENERATE(DType::f32, DType::bf16);
  const bool cpu = GENERATE(false, true);
  CAPTURE(name, name_of(compute), cpu);
  const ModelSection m = with_dropout(tiny_model(name));
  const auto run = [&](Recompute r) {
    Rig rig(cpu ? make_cpu_ops() : make_ref_ops(), m, compute, r);
    return train(rig, m, 2);
  };
  const auto expected = run(Recompute::none);
  CHECK(run(Recompute::selective) == expected);
  CHECK(run(Recompute::full) == expected);
}

TEST_CASE("the micro-batch size does not change training", "[exec]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  CAPTURE(name);
  const ModelSection m = with_dropout(tiny_model(name));
  Rig whole(make_cpu_ops(), m, DType::f32), split(make_cpu_ops(), m, DType::f32);
  const auto a = train(whole, m, 4), b = train(split, m, 1);
  for (size_t i = 0; i < 6; ++i) CHECK(b[i] == Approx(a[i]).epsilon(1e-5));
}

TEST_CASE("the cpu backend trains like the reference backend", "[exec]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  CAPTURE(name);
  const ModelSection m = with_dropout(tiny_model(name));
  Rig ref(make_ref_ops(), m, DType::f32), cpu(make_cpu_ops(), m, DType::f32), narrow(make_cpu_ops(), m, DType::bf16);
  const auto a = train(ref, m, 2), b = train(cpu, m, 2), c = train(narrow, m, 2);
  for (size_t i = 0; i < 6; ++i) CHECK(b[i] == Approx(a[i]).epsilon(2e-5));
  CHECK(c[0] == Approx(a[0]).epsilon(8 * epsilon_of(DType::bf16)));  // first loss: rounding only, no drift yet
}

TEST_CASE("decoding token by token equals the training forward pass", "[exec]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  const bool cpu = GENERATE(false, true);
  CAPTURE(name, cpu);
  const ModelSection m = with_dropout(tiny_model(name));  // dropout must be off in both
  Rig rig(cpu ? make_cpu_ops() : make_ref_ops(), m, DType::f32);
  Batch b = random_batch(m, 1, 20, 3);
  double total = 0;
  Decoder decoder(rig.model, 32);
  size_t t = 0;
  for (const size_t piece : {size_t{7}, size_t{1}, size_t{1}, size_t{11}}) {
    const auto logits = decoder.append(std::span(b.tokens).subspan(t, piece));
    t += piece;
    double sum = 0;
    for (const float l : logits) sum += std::exp(static_cast<double>(l));
    const int32_t target = b.targets[t - 1] == kIgnoredTarget ? 0 : b.targets[t - 1];
    total += std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
    // The same position through the training path.
    Batch only = b;
    std::fill(only.targets.begin(), only.targets.end(), kIgnoredTarget);
    only.targets[t - 1] = target;
    const LossSums s = rig.executor.evaluate(std::span(&only, 1))[0];
    CHECK(s.loss ==
          Approx(std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)])).epsilon(1e-5).margin(1e-5));
  }
  CHECK(std::isfinite(total));
}

TEST_CASE("the loss never holds more logits than a chunk", "[exec]") {
  ModelSection m = tiny_model("llama");
  m.vocab = 4000;
  const std::vector<Batch> one = {random_batch(m, 2, 16, 9)};
  double loss[2];
  size_t peak[2];
  for (const int i : {0, 1}) {
    Rig rig(make_cpu_ops(), m, DType::bf16, Recompute::none, {0.0, i == 0 ? 4 : 1024});
    loss[i] = rig.executor.accumulate(one).mean();
    peak[i] = rig.arena.by_class_at_peak()[static_cast<size_t>(MemoryClass::logits)];
  }
  CHECK(loss[0] == Approx(loss[1]).epsilon(1e-6));
  CHECK(peak[0] == 4 * 4000 * 2);
  CHECK(peak[1] == 32 * 4000 * 2);
}

TEST_CASE("diagnose names the first non-finite tensor", "[exec]") {
  const ModelSection m = tiny_model("llama");
  Rig rig(make_ref_ops(), m, DType::f32);
  const std::vector<Batch> batches = {random_batch(m, 2, 12, 1)};
  SECTION("non-finite parameter") {
    const ParamId id = rig.model.table().find("model.layers.1.mlp.down_proj.weight");
    std::vector<float> w = rig.host(rig.model.params().weight(id));
    w[5] = std::nanf("");
    rig.ops->copy_in({rig.model.params().weight(id), w.data()});
    CHECK_FALSE(std::isfinite(rig.executor.accumulate(batches).mean()));
    CHECK_THAT(rig.executor.diagnose(batches), Catch::Contains("model.layers.1.mlp.down_proj.weight (layer 1)"));
  }
  SECTION("overflow in one sample") {
    // The embedding of one token is huge: its query-key product overflows in the samples that hold it.
    const ParamId id = rig.model.table().find("model.layers.0.mlp.up_proj.weight");
    std::vector<float> w = rig.host(rig.model.params().weight(id));
    for (float& v : w) v = 3e38f;
    rig.ops->copy_in({rig.model.params().weight(id), w.data()});
    rig.executor.accumulate(batches);
    CHECK_FALSE(rig.executor.gradient_norm().finite);
    const std::string text = rig.executor.diagnose(batches);
    CHECK_THAT(text, Catch::Contains("layer 0 MLP"));
    CHECK_THAT(text, Catch::Contains("1000"));
  }
}

TEST_CASE("the gradient of DPO agrees with its loss", "[exec]") {
  const ModelSection m = tiny_model("llama");
  ExecutorOptions options;
  options.loss.chunk_tokens = 5;  // rows of a sample span chunks, chunks do not span samples
  options.loss.dpo = DpoSpec{0.7, 0.1, 0.2, ""};
  Rig rig(make_ref_ops(), m, DType::f32, Recompute::none, options);
  std::vector<Batch> batches;
  for (const uint64_t seed : {1u, 2u}) {
    batches.push_back(random_batch(m, 4, 12, seed));
    batches.back().reference_logp = {-30, -29, -33, -30.5};
  }
  const LossSums s = rig.executor.accumulate(batches);
  CHECK(s.units == 4);
  // Along the gradient itself the loss changes by the gradient's squared norm.
  const std::vector<float> g = rig.host(rig.model.params().grads()), w = rig.host(rig.model.params().master());
  double squares = 0;
  for (const float x : g) squares += static_cast<double>(x) * x;
  const auto loss_at = [&](double step) {
    std::vector<float> moved(w.size());
    for (size_t i = 0; i < w.size(); ++i) moved[i] = static_cast<float>(w[i] + step * g[i]);
    rig.ops->copy_in({rig.model.params().master(), moved.data()});
    rig.ops->weights_changed();
    LossSums total;
    for (const Batch& b : batches) total += rig.executor.evaluate(std::span(&b, 1))[0];
    return total.mean();
  };
  const double h = 1e-3 / std::sqrt(squares);
  CHECK(loss_at(0) == Approx(s.mean()).epsilon(1e-6));
  CHECK((loss_at(h) - loss_at(-h)) / (2 * h) == Approx(squares).epsilon(1e-3));
}
