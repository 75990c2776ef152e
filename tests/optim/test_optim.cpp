#include <catch2/catch.hpp>
#include <cmath>

#include "ops/backends.h"
#include "optim/learning_rate.h"
#include "optim/optimizer.h"
#include "tensor/arena.h"

using namespace fp;

TEST_CASE("the learning rate follows the warm-up and each schedule", "[optim]") {
  ScheduleSection s;
  s.warmup_steps = 10;
  s.min_lr_ratio = 0.1;
  constexpr double lr = 2.0;
  constexpr int64_t steps = 110;
  const auto at = [&](int64_t step) { return learning_rate(s, lr, step, steps); };
  CHECK(at(0) == Approx(0.2));
  CHECK(at(9) == Approx(2.0));
  SECTION("cosine") {
    CHECK(at(10) == Approx(2.0));
    CHECK(at(steps - 1) == Approx(0.2));
    CHECK(at(steps + 50) == Approx(0.2));
    s.decay_steps = 61;  // from 10 to 60: half way at 35
    CHECK(at(35) == Approx(1.1));
    CHECK(at(60) == Approx(0.2));
  }
  SECTION("linear") {
    s.kind = LearningRateSchedule::linear;
    s.decay_steps = 61;
    CHECK(at(35) == Approx(1.1));
    CHECK(at(60) == Approx(0.2));
  }
  SECTION("constant") {
    s.kind = LearningRateSchedule::constant;
    CHECK(at(steps - 1) == lr);
  }
  SECTION("wsd") {
    s.kind = LearningRateSchedule::wsd;
    s.min_lr_ratio = 0;
    s.decay_steps = 41;  // steps 69..109
    for (const auto& [shape, middle] : {std::pair{DecayShape::linear, 0.5},
                                        {DecayShape::cosine, 0.5},
                                        {DecayShape::exponential, std::sqrt(2.0) - 1},
                                        {DecayShape::minus_sqrt, 1 - std::sqrt(0.5)}}) {
      s.decay_shape = shape;
      CHECK(at(68) == lr);
      CHECK(at(89) == Approx(lr * middle));
      CHECK(at(109) == Approx(0.0).margin(1e-12));
    }
    s.decay_steps = 0;  // 20% of the run: the last 22 steps
    CHECK(at(87) == lr);
    CHECK(at(88) == lr);
    CHECK(at(89) < lr);
  }
}

TEST_CASE("AdamW follows its formula with decay on marked ranges only", "[optim]") {
  const auto ops = make_ref_ops();
  Arena arena(host_memory(1 << 20, false), 1 << 20);
  constexpr int64_t n = 6;
  const auto alloc = [&] { return arena.alloc(DType::f32, {n}); };
  const ArenaTensor p = alloc(), m = alloc(), v = alloc(), g = alloc();
  const ArenaTensor w = arena.alloc(DType::bf16, {n});
  const float p0[n] = {1, -2, 3, 4, -5, 6}, g0[n] = {0.1f, -0.2f, 0.3f, 0, 1, -1};
  ops->copy_in({p, p0});
  ops->copy_in({g, g0});
  ops->zero({m});
  ops->zero({v});
  OptimizerSection o;
  o.weight_decay = 0.5;
  const std::vector<ParamRange> ranges = {{{0, 2}, true}, {{2, 1}, true}, {{4, 2}, false}};  // element 3 is a gap
  double pm[n], mm[n] = {}, vv[n] = {};
  for (int i = 0; i < n; ++i) pm[i] = p0[i];
  constexpr double lr = 0.01, scale = 0.25;
  for (int step = 1; step <= 3; ++step) {
    make_optimizer(o)->update(*ops, {p, {m, v}, g, w}, ranges, {lr, step, scale});
    for (int i = 0; i < n; ++i) {
      if (i == 3) continue;
      const double gi = g0[i] * scale;
      mm[i] = o.beta1 * mm[i] + (1 - o.beta1) * gi;
      vv[i] = o.beta2 * vv[i] + (1 - o.beta2) * gi * gi;
      const double mhat = mm[i] / (1 - std::pow(o.beta1, step)), vhat = vv[i] / (1 - std::pow(o.beta2, step));
      pm[i] -= lr * (mhat / (std::sqrt(vhat) + o.eps) + (i < 3 ? o.weight_decay * pm[i] : 0.0));
    }
  }
  float out[n];
  bf16 narrow[n];
  ops->copy_out({out, p});
  ops->copy_out({narrow, w});
  for (int i = 0; i < n; ++i) {
    CHECK(out[i] == Approx(pm[i]).epsilon(1e-6));
    if (i != 3) CHECK(static_cast<float>(narrow[i]) == static_cast<float>(bf16(out[i])));
  }
  CHECK(out[3] == 4.0f);
}

TEST_CASE("clip_scale bounds the gradient norm", "[optim]") {
  CHECK(clip_scale(10, 1) == Approx(0.1));
  CHECK(clip_scale(0.5, 1) == 1.0);
  CHECK(clip_scale(10, 0) == 1.0);
}
