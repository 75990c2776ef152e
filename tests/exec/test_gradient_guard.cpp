// GradientGuard: the errors that it measures, and the bits that it chooses from them.
#include <catch2/catch.hpp>
#include <random>

#include "exec/gradient_guard.h"
#include "exec/rig.h"

namespace fp::test {
namespace {

constexpr double kLimit = 0.6;

// A model of one rank whose sums would be quantized, and the gradient of the unit of its first layer.
struct GuardRig {
  Rig rig{make_cpu_ops(), tiny_model("llama"), DType::f32};
  ModelEnv env = rig.model.env();
  const ParamTable& table = rig.model.table();
  int unit = table.layer_unit(0);
  ParamUnit layer = table.units()[static_cast<size_t>(unit)];
  std::vector<float> gradient = std::vector<float>(static_cast<size_t>(layer.elements), 0.0f);

  GuardRig() {
    env.formats.gradients = env.formats.node_gradients = BlockFormat{4, 64};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (ParamId id = layer.first; id <= layer.last; ++id)
      for (float& x : of(id)) x = 1e-3f * normal(random);
  }
  std::span<float> of(ParamId id) {
    return std::span(gradient).subspan(static_cast<size_t>(table[id].offset - layer.offset),
                                       static_cast<size_t>(table[id].local_elements()));
  }
  GradientGuard guard(bool assume_within_limit) const {
    return {env, kLimit, *env.formats.gradients, std::span(&table, 1), assume_within_limit};
  }
  // Takes steps with this gradient until a parameter gets other bits.
  void step_to_change(GradientGuard& guard) {
    const int64_t last = guard.state().steps + 16;
    do step(guard);
    while (guard.changes().empty() && guard.state().steps < last);
    REQUIRE(guard.changes().size() == 1);
  }
  // Takes a step with this gradient.
  void step(GradientGuard& guard) {
    const ArenaTensor whole = rig.arena.alloc(DType::f32, {layer.elements});
    rig.ops->copy_in({whole, gradient.data()});
    guard.sample(unit, whole);
    guard.choose(guard.errors());
  }
};

}  // namespace

TEST_CASE("the error is the mean relative error of what is decoded", "[exec]") {
  GuardRig r;
  GradientGuard guard = r.guard(false);
  // A block of 64 with the scale 1: a half is rounded to an even number, so that 0.5 is lost and 1.5 is off by a third.
  for (ParamId id = r.layer.first; id <= r.layer.last; ++id) {
    size_t i = 0;
    for (float& x : r.of(id)) x = std::array{7.0f, 0.5f, 1.5f, 0.0f}[i++ % 4];
  }
  const ArenaTensor whole = r.rig.arena.alloc(DType::f32, {r.layer.elements});
  r.rig.ops->copy_in({whole, r.gradient.data()});
  guard.sample(r.unit, whole);
  const std::vector<double> errors = guard.errors();
  REQUIRE(errors.size() == 3 * r.table.size());
  for (ParamId id = r.layer.first; id <= r.layer.last; ++id) {
    CAPTURE(r.table[id].name);
    const double* const e = &errors[3 * static_cast<size_t>(id)];
    REQUIRE(e[0] > 0);
    CHECK(e[1] / e[0] == Approx(4.0 / 9).epsilon(0.05));
    CHECK(e[2] / e[0] < 0.06);
  }
  for (ParamId id = 0; id < r.layer.first; ++id) CHECK(errors[3 * static_cast<size_t>(id)] == 0);
}

TEST_CASE("a parameter with an outlier in each block gets more bits, and fewer when it has none any more", "[exec]") {
  GuardRig r;
  GradientGuard guard = r.guard(false);
  const auto all = static_cast<int64_t>(r.table.size());
  CHECK(guard.widened() == all);
  CHECK(guard.parts(r.unit).at(0).segments.at(0).count == r.layer.elements);
  r.step(guard);
  const int64_t others = all - (r.layer.last - r.layer.first + 1);  // not sampled
  CHECK(guard.widened() == others);
  CHECK(guard.parts(r.unit).empty());

  const ParamId vector = r.layer.first;  // the gain of a norm: small enough to be sent apart
  REQUIRE(4 * r.table[vector].local_elements() <= r.layer.elements);
  r.of(vector)[3] = 10;
  r.step(guard);
  CHECK(guard.widened() == others + 1);
  REQUIRE(guard.changes().size() == 1);
  CHECK(guard.changes()[0].name == r.table[vector].name);
  CHECK(guard.changes()[0].from == 4);
  CHECK(guard.changes()[0].to == 32);
  CHECK(guard.changes()[0].error > 0.9);
  CHECK_THAT(describe(guard.changes()), Catch::StartsWith("gradients are sent with 32 instead of 4 bits for " +
                                                          r.table[vector].name + " (error 0.9"));
  const std::vector<FormattedParts> parts = guard.parts(r.unit);
  REQUIRE(parts.size() == 1);
  CHECK_FALSE(parts[0].format);
  REQUIRE(parts[0].segments.size() == 1);
  CHECK(parts[0].segments[0].first == r.table[vector].offset - r.layer.offset);
  CHECK(parts[0].segments[0].count == r.table[vector].local_elements());

  const GradientGuardState state = guard.state();
  CHECK(state.steps == 2);
  GradientGuard resumed = r.guard(false);
  resumed.restore(state);
  CHECK(resumed.state() == state);
  CHECK(resumed.parts(r.unit).at(0).segments.at(0).count == r.table[vector].local_elements());

  r.of(vector)[3] = 0.05f;  // 8 bits keep what is 50 times smaller
  r.step_to_change(guard);
  CHECK(guard.changes()[0].to == 8);
  REQUIRE(guard.parts(r.unit).at(0).format);
  CHECK(guard.parts(r.unit)[0].format->bits == 8);
  CHECK(guard.median_error() < 0.5);
  r.of(vector)[3] = 1e-3f;
  r.step_to_change(guard);
  CHECK(guard.widened() == others);
  r.step(guard);
  CHECK(guard.changes().empty());
}

TEST_CASE("a unit is sent with more bits as a whole if much of it needs them", "[exec]") {
  GuardRig r;
  GradientGuard guard = r.guard(true);
  CHECK(guard.widened() == 0);
  const auto set_each_16th = [&](float value) {
    for (ParamId id = r.layer.first; id <= r.layer.last; ++id) {
      size_t i = 0;
      for (float& x : r.of(id)) x = i++ % 16 == 0 ? value : x;
    }
  };
  set_each_16th(0.05f);
  r.of(r.layer.first)[3] = 10;
  r.step(guard);
  std::vector<FormattedParts> parts = guard.parts(r.unit);
  REQUIRE(parts.size() == 2);
  REQUIRE(parts[0].format);
  CHECK(parts[0].format->bits == 8);
  CHECK(parts[0].segments.at(0).count == r.layer.elements);
  CHECK_FALSE(parts[1].format);
  REQUIRE(parts[1].segments.size() == 1);
  CHECK(parts[1].segments[0].count == r.table[r.layer.first].local_elements());

  set_each_16th(10);
  r.step(guard);
  parts = guard.parts(r.unit);
  REQUIRE(parts.size() == 1);
  CHECK_FALSE(parts[0].format);
  CHECK(parts[0].segments.at(0).count == r.layer.elements);
}

TEST_CASE("values that are not finite do not count", "[exec]") {
  GuardRig r;
  GradientGuard guard = r.guard(false);
  for (float& x : r.gradient) x = std::numeric_limits<float>::quiet_NaN();
  const int64_t before = guard.widened();
  r.step(guard);
  CHECK(guard.widened() == before);
  CHECK(guard.changes().empty());
  r.gradient.assign(r.gradient.size(), 1.0f);
  r.step(guard);
  CHECK_FALSE(guard.changes().empty());
  guard.keep();
  CHECK(guard.changes().empty());
  CHECK(std::isnan(guard.median_error()));
}

TEST_CASE("a resumed guard gives parameters at least the bits that they had", "[exec]") {
  GuardRig r;
  GradientGuard guard = r.guard(false);
  const std::string name = r.table[0].name, other = r.table[1].name;
  guard.restore({5, {{name, 16}, {"no such parameter", 8}}});  // of bf16 gradients
  CHECK(guard.state() == GradientGuardState{5, {{name, 32}}, 4});
  guard.restore({6, {{other, 8}}});
  CHECK(guard.state() == GradientGuardState{6, {{other, 8}}, 4});
  guard.restore({7, {{other, 32}}, 8});  // of a run with 8 bits: the others were accepted with these
  CHECK(guard.widened() == static_cast<int64_t>(r.table.size()));
  CHECK(guard.state().bits.at(name) == 8);
  CHECK(guard.state().bits.at(other) == 32);
}

}  // namespace fp::test
