// Ten thousand random requests of all kinds and sizes, with different times for each stage.
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "pipeline/verify.h"

using namespace fp;

namespace {

// Returns a random request, which may be illegal; all kinds, groups and units are equally likely.
ScheduleRequest draw(std::mt19937& random) {
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  ScheduleRequest q{.kind = schedule_kinds()[static_cast<size_t>(upto(13))]};
  q.ranks = 1 + upto(15);
  const bool grouped = upto(1) == 1;
  q.micro_batches = grouped ? q.ranks * (1 + upto(3)) : 1 + upto(3 * q.ranks);
  const bool wave = q.kind == PipelineSchedule::wave, zeropp = q.kind == PipelineSchedule::zeropp;
  const bool grouping = q.kind == PipelineSchedule::interleaved || q.kind == PipelineSchedule::interleaved_zb;
  if (any_chunks(q.kind) && !wave) q.chunks = upto(4);
  if (wave) q.chunks = 2 * upto(2);
  if (wave) q.window = upto(3 * q.ranks);
  if (grouping && upto(1) == 1) q.group = upto(q.micro_batches);
  if (zeropp && upto(1) == 1) q.unit_size = upto(q.micro_batches);
  if (zeropp) q.warmup = upto(2);
  const bool fused = !splits_weight_gradients(q.kind);
  q.w_pass = fused && upto(1) == 1;
  return q;
}

double random_time(std::mt19937& random) { return std::uniform_real_distribution<double>(0.1, 3)(random); }

// Returns random times for each stage.
Costs random_costs(const Placement& p, std::mt19937& random) {
  Costs costs;
  for (int s = 0; s < p.stages(); ++s)
    costs.by_stage.push_back({random_time(random), random_time(random), random_time(random)});
  costs.hop = random_time(random) / 5;
  costs.pairs_are_one = random() % 2 == 0;
  return costs;
}

void check_lowered(const Schedule& s, const Costs& costs, std::mt19937& random) {
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  LoweringOptions options{.costs = costs, .sends_in_flight = 1 + upto(2), .gather = upto(1) == 1};
  options.resident = (costs.pairs_are_one ? 2 : 1) + upto(2);
  options.reduce_every = upto(3);
  CAPTURE(options.gather, options.resident, options.reduce_every);
  CHECK(verify_lowered(lower(s, options), options) == std::vector<std::string>{});
}

void check_random_schedules(int count) {
  std::mt19937 random(2);
  int legal = 0, draws = 0;
  for (; legal < count; ++draws) {
    const ScheduleRequest q = draw(random);
    CAPTURE(name_of(q.kind), q.ranks, q.micro_batches, q.chunks, q.group, q.unit_size, q.warmup, q.window, q.w_pass);
    Schedule s;
    Costs costs;
    try {
      costs = random_costs(placement_of(q), random);
      s = generate(q, random() % 2 == 0 ? costs : Costs{});
    } catch (const ConfigError&) {
      continue;
    }
    ++legal;
    const Timing t = simulate(s, costs);
    Costs larger = costs;
    for (StageCosts& c : larger.by_stage)
      if (random() % 2 == 0) c = {c.forward + random_time(random), c.backward_input + 1, c.backward_weight + 0.5};
    larger.hop += random_time(random);
    const double rounding = 1e-9 * t.makespan;
    CHECK(verify(s).empty());
    if (legal % 10 == 0) check_lowered(s, costs, random);
    const bool right = t.makespan >= t.work - rounding && t.span_bubble <= t.bubble + 1e-9 && t.bubble < 1 &&
                       simulate(s, larger).makespan >= t.makespan - rounding;
    if (!right) CHECK(right);
  }
  CHECK(draws < 3 * legal);
}

}  // namespace

TEST_CASE("a thousand random schedules are valid and run without deadlock with random times", "[pipeline]") {
  check_random_schedules(1000);
}
TEST_CASE("ten thousand random schedules are valid and run without deadlock with random times", "[pipeline][slow]") {
  check_random_schedules(10000);
}
