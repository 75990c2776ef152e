// The W pass: the time it saves, the order it keeps, and its memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"
#include "pipeline/simulate.h"

using namespace fp;

namespace {

int peak_of(const Timing& t) { return *std::max_element(t.peak_chunks.begin(), t.peak_chunks.end()); }

// Returns the F and backward actions only, with B and D as the same kind.
std::vector<std::vector<Action>> without_weights(const Schedule& s) {
  std::vector<std::vector<Action>> lists;
  for (const std::vector<Action>& list : s.ranks) {
    lists.emplace_back();
    for (Action a : list) {
      if (a.kind == ActionKind::backward_weight) continue;
      if (a.kind == ActionKind::backward_input) a.kind = ActionKind::backward;
      lists.back().push_back(a);
    }
  }
  return lists;
}

}  // namespace

TEST_CASE("the W pass reaches the lower bounds without more memory", "[pipeline]") {
  for (const int p : {2, 4, 8, 16})
    for (const int units : {1, 2, 3, 4}) {
      const int m = p * units;
      const auto split = [&](PipelineSchedule kind, int cap) {
        const Schedule fused = generate({.kind = kind, .ranks = p, .micro_batches = m});
        const Timing t = simulate(split_weight_gradients(fused, {}, cap), {});
        const Timing before = simulate(fused, {});
        CAPTURE(name_of(kind), p, m, cap);
        for (size_t r = 0; r < t.peak_chunks.size(); ++r)
          CHECK(t.peak_chunks[r] <= (cap > 0 ? cap : before.peak_chunks[r]));
        CHECK(t.work == before.work);
        return t.makespan;
      };
      CHECK(split(PipelineSchedule::chimera, 0) == 3 * m + p / 2 - 1);
      CHECK(split(PipelineSchedule::bitpipe, 0) == 6 * m + p / 2 - 1);
      CHECK(split(PipelineSchedule::one_f_one_b, p) == 3 * m + p - 1);
      CHECK(split(PipelineSchedule::interleaved, std::min(2 * m, 3 * p - 1)) == 6 * m + p - 1);
    }
}

TEST_CASE("by default the W pass stays within the fused schedule's peak", "[pipeline]") {
  for (const PipelineSchedule kind :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::bfs,
        PipelineSchedule::chimera, PipelineSchedule::bitpipe, PipelineSchedule::wave})
    for (const int p : {2, 4, 6}) {
      ScheduleRequest q{.kind = kind, .ranks = p, .micro_batches = 3 * p};
      CAPTURE(name_of(kind), p);
      const Timing fused = simulate(generate(q), {});
      q.w_pass = true;
      const Timing split = simulate(generate(q), {});
      CHECK(peak_of(split) <= peak_of(fused));
      if (p > 2) CHECK(split.makespan < fused.makespan);
    }
}

TEST_CASE("the W pass keeps the order of forward and backward actions", "[pipeline]") {
  std::mt19937 random(3);
  const auto time = [&] { return std::uniform_real_distribution<double>(0.1, 3)(random); };
  for (int i = 0; i < 200; ++i)
    for (const PipelineSchedule kind : {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                                        PipelineSchedule::chimera, PipelineSchedule::bitpipe}) {
      const int p = 2 * (1 + i % 4);
      const Schedule fused = generate({.kind = kind, .ranks = p, .micro_batches = 2 * p});
      Costs costs;
      for (int s = 0; s < fused.placement.stages(); ++s) costs.by_stage.push_back({time(), time(), time()});
      costs.hop = time() / 10;
      const int cap = peak_of(simulate(fused, {})) + i % 3;
      const Schedule split = split_weight_gradients(fused, costs, cap);
      CHECK(without_weights(split) == fused.ranks);
      CHECK(peak_of(simulate(split, costs)) <= cap);
    }
}

TEST_CASE("the W pass follows the times it is given", "[pipeline]") {
  const Schedule fused = generate({.kind = PipelineSchedule::bitpipe, .ranks = 4, .micro_batches = 8});
  Costs costs;
  costs.hop = 0.2;
  const double frozen = simulate(split_weight_gradients(fused, {}, 0), costs).bubble;
  const double fitted = simulate(split_weight_gradients(fused, costs, 8), costs).bubble;
  CHECK(fitted < 0.6 * frozen);
}

TEST_CASE("gaps too small for a weight gradient are left empty", "[pipeline]") {
  for (const double hop : {0.0, 0.02, 0.1})
    for (const StageCosts each : {StageCosts{1, 1.1, 0.9}, StageCosts{1, 0.95, 1.05}, StageCosts{1, 1.3, 0.5}}) {
      Costs costs{.each = each, .by_stage = {}, .hop = hop};
      const Schedule fused = generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 8, .micro_batches = 16});
      const Schedule by_hand = generate({.kind = PipelineSchedule::zb_h1, .ranks = 8, .micro_batches = 16});
      CAPTURE(hop, each.backward_input);
      CHECK(simulate(split_weight_gradients(fused, costs, 8), costs).makespan <=
            Approx(simulate(by_hand, costs).makespan));
    }
}

TEST_CASE("waves with a W pass reach 6m + p - 1 within the memory cap", "[pipeline]") {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {p, 2 * p, 4 * p}) {
      const ScheduleRequest q{
          .kind = PipelineSchedule::wave, .ranks = p, .micro_batches = m, .w_pass = true, .memory_cap = 2 * p};
      const Timing t = simulate(generate(q), {});
      CAPTURE(p, m);
      CHECK(t.makespan == 6 * m + p - 1);
      CHECK(peak_of(t) == 2 * p);
    }
}

TEST_CASE("a memory cap that is too small is refused with the smallest that works", "[pipeline]") {
  const auto refused = [](ScheduleRequest q, const std::string& text) {
    q.ranks = 4;
    q.micro_batches = 8;
    q.w_pass = true;
    CHECK_THROWS_WITH(generate(q), Catch::Contains(text));
    CHECK_THROWS_AS(generate(q), ConfigError);
  };
  refused({.kind = PipelineSchedule::interleaved, .memory_cap = 9},
          "9 chunks a rank gets stuck; smallest that works: 11");
  refused({.kind = PipelineSchedule::one_f_one_b, .memory_cap = 3},
          "3 chunks a rank gets stuck; smallest that works: 4");
  refused({.kind = PipelineSchedule::wave, .memory_cap = 7}, "7 chunks a rank gets stuck; smallest that works: 8");
  CHECK_NOTHROW(generate(
      {.kind = PipelineSchedule::interleaved, .ranks = 4, .micro_batches = 8, .w_pass = true, .memory_cap = 11}));
  const Schedule split = generate({.kind = PipelineSchedule::zb_h1, .ranks = 4, .micro_batches = 8});
  CHECK_THROWS_AS(split_weight_gradients(split, {}, 0), InternalError);
}
