// Makespans, peaks and messages of the schedule kinds at many sizes, and the requests that they refuse.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "pipeline/simulate.h"
#include "pipeline/verify.h"

using namespace fp;

namespace {

int peak(const Timing& t) { return *std::max_element(t.peak_chunks.begin(), t.peak_chunks.end()); }

// Makespan and peak in chunk units, F = B = W = 1.
void check(const ScheduleRequest& q, int makespan, int chunks_held) {
  CAPTURE(name_of(q.kind), q.ranks, q.micro_batches, q.chunks, q.group, q.unit_size, q.warmup);
  const Schedule s = generate(q);
  const Timing t = simulate(s, {});
  const int p = q.ranks, v = s.placement.chunks;
  CHECK(t.makespan == makespan);
  CHECK(peak(t) == chunks_held);
  CHECK(t.work == 3 * q.micro_batches * v);
  const int turns = s.placement.zigzag || p == 1 ? v - 1 : 0;
  CHECK(t.messages_per_micro_batch == 2 * (p * v - 1 - (p == 1 ? p * v - 1 : turns)));
}

// Published values of a kind at m = p, 2p, 4p; 0: not possible.
struct Known {
  ScheduleRequest request;
  int makespan[3][3], peak[3][3];  // of p = 2, 4, 8
};

const Known kKnown[] = {
    {{.kind = PipelineSchedule::gpipe},
     {{9, 15, 27}, {21, 33, 57}, {45, 69, 117}},
     {{2, 4, 8}, {4, 8, 16}, {8, 16, 32}}},
    {{.kind = PipelineSchedule::one_f_one_b},
     {{9, 15, 27}, {21, 33, 57}, {45, 69, 117}},
     {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {{.kind = PipelineSchedule::interleaved},
     {{15, 27, 51}, {33, 57, 105}, {69, 117, 213}},
     {{4, 5, 5}, {8, 11, 11}, {16, 23, 23}}},
    {{.kind = PipelineSchedule::bfs},
     {{15, 27, 51}, {33, 57, 105}, {69, 117, 213}},
     {{4, 8, 16}, {8, 16, 32}, {16, 32, 64}}},
    {{.kind = PipelineSchedule::zb_h1}, {{7, 13, 25}, {15, 27, 51}, {31, 55, 103}}, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {{.kind = PipelineSchedule::zb_h2},
     {{7, 13, 25}, {15, 27, 51}, {31, 55, 103}},
     {{2, 3, 3}, {4, 7, 7}, {8, 15, 15}}},
    {{.kind = PipelineSchedule::zb_v},
     {{14, 25, 49}, {30, 51, 99}, {62, 103, 199}},
     {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {{.kind = PipelineSchedule::interleaved_zb},
     {{13, 25, 49}, {27, 51, 99}, {55, 103, 199}},
     {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {{.kind = PipelineSchedule::chimera},
     {{6, 12, 24}, {16, 30, 58}, {36, 66, 126}},
     {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {{.kind = PipelineSchedule::chimera, .w_pass = true},
     {{6, 12, 24}, {13, 25, 49}, {27, 51, 99}},
     {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {{.kind = PipelineSchedule::bitpipe},
     {{12, 24, 48}, {28, 54, 106}, {60, 114, 222}},
     {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {{.kind = PipelineSchedule::bitpipe, .w_pass = true},
     {{12, 24, 48}, {25, 49, 97}, {51, 99, 195}},
     {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {{.kind = PipelineSchedule::wave},
     {{16, 29, 55}, {36, 65, 110}, {76, 137, 230}},
     {{4, 5, 6}, {8, 11, 14}, {16, 23, 28}}},
    {{.kind = PipelineSchedule::wave, .chunks = 4},
     {{28, 53, 106}, {61, 122, 232}, {126, 248, 430}},
     {{8, 9, 10}, {16, 19, 24}, {32, 39, 46}}},
    {{.kind = PipelineSchedule::dualpipe}, {{0, 12, 24}, {0, 25, 49}, {0, 51, 99}}, {{0, 3, 3}, {0, 5, 5}, {0, 9, 9}}},
    {{.kind = PipelineSchedule::dualpipev},
     {{0, 25, 49}, {0, 51, 99}, {0, 103, 199}},
     {{0, 5, 5}, {0, 9, 9}, {0, 17, 17}}},
    {{.kind = PipelineSchedule::zeropp, .unit_size = 1},  // 1: p
     {{13, 26, 52}, {27, 54, 108}, {55, 110, 220}},
     {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {{.kind = PipelineSchedule::zeropp, .unit_size = 2},  // 2: 2p
     {{0, 25, 49}, {0, 51, 99}, {0, 103, 199}},
     {{0, 7, 7}, {0, 15, 15}, {0, 31, 31}}},
};

}  // namespace

TEST_CASE("makespans and peaks equal published values", "[pipeline]") {
  for (const Known& k : kKnown)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        if (k.makespan[i][j] == 0) continue;
        ScheduleRequest q = k.request;
        q.ranks = 2 << i;
        q.micro_batches = q.ranks << j;
        q.unit_size *= q.ranks;
        if (q.unit_size == q.ranks) q.warmup = 1;
        check(q, k.makespan[i][j], k.peak[i][j]);
      }
}

TEST_CASE("zero span bubbles and DualPipe makespans and peaks of the outer ranks are as published", "[pipeline]") {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 4 * p}) {
      CAPTURE(p, m);
      for (const PipelineSchedule kind : {PipelineSchedule::zb_h2, PipelineSchedule::zb_v, PipelineSchedule::zeropp})
        CHECK(simulate(generate({.kind = kind, .ranks = p, .micro_batches = m}), {}).span_bubble == 0);
      Costs atomic;
      atomic.pairs_are_one = true;
      CHECK(simulate(generate({.kind = PipelineSchedule::dualpipe, .ranks = p, .micro_batches = m}), atomic).makespan ==
            3 * m + p - 2);
      CHECK(
          simulate(generate({.kind = PipelineSchedule::dualpipev, .ranks = p, .micro_batches = m}), atomic).makespan ==
          6 * m + 2 * (p - 1));
      CHECK(
          simulate(generate({.kind = PipelineSchedule::chimera, .ranks = p, .micro_batches = m}), {}).peak_chunks[0] ==
          p / 2 + 1);
      CHECK(
          simulate(generate({.kind = PipelineSchedule::bitpipe, .ranks = p, .micro_batches = m}), {}).peak_chunks[0] ==
          3 * p / 2 + 1);
    }
}

TEST_CASE("published formulas hold at any size", "[pipeline]") {
  for (const int p : {1, 2, 3, 5, 6, 16})
    for (int m = 1; m <= 2 * p + 3; ++m) {
      check({.kind = PipelineSchedule::gpipe, .ranks = p, .micro_batches = m}, 3 * (m + p - 1), m);
      check({.kind = PipelineSchedule::one_f_one_b, .ranks = p, .micro_batches = m}, 3 * (m + p - 1), std::min(m, p));
      const int split = std::max(3 * m + p - 1, 2 * (m + p) - 1);
      check({.kind = PipelineSchedule::zb_h1, .ranks = p, .micro_batches = m}, split, std::min(m, p));
      check({.kind = PipelineSchedule::zb_h2, .ranks = p, .micro_batches = m}, split, std::min(m, 2 * p - 1));
      check({.kind = PipelineSchedule::zb_v, .ranks = p, .micro_batches = m},
            6 * m + std::max(p - 1, 4 * p - 2 - 2 * m), 2 * std::min(m, p));
      if (m < p) continue;
      for (const int v : {1, 2, 3})
        check({.kind = PipelineSchedule::bfs, .ranks = p, .micro_batches = m, .chunks = v}, 3 * (m * v + p - 1), m * v);
      if (m >= 2 * p)
        check({.kind = PipelineSchedule::dualpipev, .ranks = p, .micro_batches = m}, 6 * m + p - 1, 2 * p + 1);
      if (m >= 2 * p && m % 2 == 0 && p % 2 == 0)
        check({.kind = PipelineSchedule::dualpipe, .ranks = p, .micro_batches = m}, 3 * m + p / 2 - 1, p + 1);
    }
  for (const int p : {2, 6, 16})
    for (const int units : {1, 2, 3}) {
      const int m = p * units, between = (p - 2) * (units + 1);
      check({.kind = PipelineSchedule::chimera, .ranks = p, .micro_batches = m}, 3 * m + between, p);
      check({.kind = PipelineSchedule::bitpipe, .ranks = p, .micro_batches = m}, 6 * m + between, 2 * p);
    }
}

TEST_CASE("published formulas hold for any groups and units", "[pipeline]") {
  for (const int p : {1, 3, 4, 6})
    for (int m = p; m <= 3 * p; ++m)
      for (int g = p; g <= m; ++g)
        for (const int v : {1, 2, 4}) {
          const auto request = [&](const PipelineSchedule kind) {
            return ScheduleRequest{.kind = kind, .ranks = p, .micro_batches = m, .chunks = v};
          };
          ScheduleRequest q = request(PipelineSchedule::interleaved);
          q.group = g;
          if (m % g == 0 || m % g >= p) check(q, 3 * (m * v + p - 1), std::min(m * v, 2 * (p - 1) + (v - 1) * g + 1));
          if (m % g != 0) continue;
          q.kind = PipelineSchedule::interleaved_zb;
          check(q, 3 * m * v + p - 1, (v - 1) * g + p);
          q = request(PipelineSchedule::zeropp);
          q.unit_size = g;
          q.warmup = 1;
          check(q, 3 * m * v + m / g * (p - 1), (v - 1) * g + p);
          q.warmup = 2;
          if (g >= 2 * p - 1) check(q, 3 * m * v + p - 1, (v - 1) * g + 2 * p - 1);
        }
}

TEST_CASE("kinds that coincide for some parameters generate equal schedules", "[pipeline]") {
  const auto lists = [](ScheduleRequest q) {
    q.ranks = 4;
    q.micro_batches = 12;
    return generate(q).ranks;
  };
  CHECK(lists({.kind = PipelineSchedule::interleaved_zb, .chunks = 1}) == lists({.kind = PipelineSchedule::zb_h1}));
  CHECK(lists({.kind = PipelineSchedule::zeropp, .unit_size = 12, .warmup = 1}) ==
        lists({.kind = PipelineSchedule::interleaved_zb, .group = 12}));
  CHECK(lists({.kind = PipelineSchedule::zeropp, .chunks = 1, .unit_size = 12, .warmup = 2}) ==
        lists({.kind = PipelineSchedule::zb_h2}));
  CHECK(lists({.kind = PipelineSchedule::bfs, .chunks = 1}) == lists({.kind = PipelineSchedule::gpipe}));
}

TEST_CASE("a single rank alternates its passes", "[pipeline]") {
  const Schedule s = generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 1, .micro_batches = 2});
  const std::vector<Action> expected = {{.kind = ActionKind::forward, .micro_batch = 0},
                                        {.kind = ActionKind::backward, .micro_batch = 0},
                                        {.kind = ActionKind::forward, .micro_batch = 1},
                                        {.kind = ActionKind::backward, .micro_batch = 1}};
  CHECK(s.ranks.at(0) == expected);
  for (const PipelineSchedule kind : schedule_kinds()) {
    const ScheduleRequest q{.kind = kind, .ranks = 1, .micro_batches = 4};
    CAPTURE(name_of(kind));
    const Placement even = placement_of({.kind = q.kind, .ranks = 2});
    if (even.two_way)
      CHECK_THROWS_AS(generate(q), ConfigError);
    else
      CHECK(simulate(generate(q), {}).bubble == 0);
  }
}

TEST_CASE("rank_of and stage_of of a placement are inverse", "[pipeline]") {
  for (const PipelineSchedule kind : schedule_kinds()) {
    const Placement p = placement_of({.kind = kind, .ranks = 4});
    std::vector<int> copies(static_cast<size_t>(p.stages()));
    for (int r = 0; r < 4; ++r) {
      for (int pipe = 0; pipe < p.pipes(); ++pipe)
        for (int c = 0; c < p.chunks; ++c) CHECK(p.rank_of(pipe, p.stage_of(pipe, r, c)) == r);
      CHECK(p.stages_of(r) == p.stages_of(p.two_way ? 3 - r : r));
      for (const int s : p.stages_of(r)) ++copies[static_cast<size_t>(s)];
    }
    CHECK(copies == std::vector<int>(static_cast<size_t>(p.stages()), p.pipes()));
  }
  CHECK(placement_of({.kind = PipelineSchedule::zb_v, .ranks = 4}).stages_of(1) == std::vector<int>{1, 6});
  CHECK(placement_of({.kind = PipelineSchedule::interleaved, .ranks = 4, .chunks = 3}).stages_of(1) ==
        std::vector<int>{1, 5, 9});
  CHECK(placement_of({.kind = PipelineSchedule::bitpipe, .ranks = 4}).stages_of(1) == std::vector<int>{1, 2, 5, 6});
}

TEST_CASE("forward-only schedules are valid and nearly without bubbles for every placement", "[pipeline]") {
  for (const PipelineSchedule kind : schedule_kinds())
    for (const int p : {2, 4, 8})
      for (const int m : {2, 6, 16}) {
        CAPTURE(name_of(kind), p, m);
        const Placement placement = placement_of({.kind = kind, .ranks = p});
        const Schedule s = forward_only(placement, m);
        CHECK(verify(s).empty());
        const Timing t = simulate(s, {});
        CHECK(t.work == m * placement.chunks);
        CHECK(t.makespan <= t.work + (placement.chunks + 1) * p);
      }
  CHECK(simulate(forward_only(placement_of({.kind = PipelineSchedule::bitpipe, .ranks = 4}), 6), {})
            .messages_per_micro_batch == 6);
}

TEST_CASE("unsupported requests are refused with the legal values", "[pipeline]") {
  const auto refused = [](const ScheduleRequest& q, const std::string& legal) {
    CHECK_THROWS_WITH(generate(q), Catch::Contains(legal));
    CHECK_THROWS_AS(generate(q), ConfigError);
  };
  refused({.kind = PipelineSchedule::chimera, .ranks = 4, .micro_batches = 6},
          "6 micro-batches; use a multiple of 4: 4, 8, 12, ...");
  refused({.kind = PipelineSchedule::bitpipe, .ranks = 3, .micro_batches = 6},
          "3 ranks; use an even number: 2, 4, 6, ...");
  refused({.kind = PipelineSchedule::one_f_one_b, .ranks = 0}, "0 ranks; use 1 or more");
  refused({.kind = PipelineSchedule::one_f_one_b, .ranks = 2, .micro_batches = 0}, "0 micro-batches; use 1 or more");
  refused({.kind = PipelineSchedule::one_f_one_b, .ranks = 2, .micro_batches = 2, .chunks = 2},
          "2 chunks a rank; use 1");
  refused({.kind = PipelineSchedule::wave, .ranks = 2, .micro_batches = 2, .chunks = 3},
          "3 chunks a rank; use two a wave: 2, 4, 6, ...");
  refused({.kind = PipelineSchedule::interleaved, .ranks = 2, .micro_batches = 2, .chunks = -1},
          "-1 chunks a rank; use 1 or more");
  refused({.kind = PipelineSchedule::interleaved, .ranks = 4, .micro_batches = 6},
          "groups of 6, or a multiple of 4 micro-batches");
  refused({.kind = PipelineSchedule::interleaved, .ranks = 4, .micro_batches = 3}, "3 micro-batches; use 4 or more");
  refused({.kind = PipelineSchedule::interleaved_zb, .ranks = 4, .micro_batches = 9},
          "use a group of 9, or a multiple of 4");
  refused({.kind = PipelineSchedule::interleaved_zb, .ranks = 4, .micro_batches = 24, .group = 2},
          "groups of 4, 6, 8, 12, 24");
  refused({.kind = PipelineSchedule::zeropp, .ranks = 4, .micro_batches = 24, .unit_size = 5},
          "units of 4, 6, 8, 12, 24");
  refused({.kind = PipelineSchedule::zeropp, .ranks = 4, .micro_batches = 24, .unit_size = 4, .warmup = 2},
          "units of 8, 12, 24");
  refused({.kind = PipelineSchedule::zeropp, .ranks = 4, .micro_batches = 4, .warmup = 2},
          "7 micro-batches or more, or warm-up 1");
  refused({.kind = PipelineSchedule::zeropp, .ranks = 4, .micro_batches = 24, .warmup = 3}, "1 (less memory) or 2");
  refused({.kind = PipelineSchedule::dualpipe, .ranks = 4, .micro_batches = 9}, "an even number: 8, 10, 12, ...");
  refused({.kind = PipelineSchedule::dualpipev, .ranks = 4, .micro_batches = 7}, "use 8 or more");
  refused({.kind = PipelineSchedule::gpipe, .ranks = 4, .micro_batches = 8, .group = 4}, "has no group");
  refused({.kind = PipelineSchedule::bfs, .ranks = 4, .micro_batches = 8, .unit_size = 4}, "it is for zeropp");
  refused({.kind = PipelineSchedule::zb_v, .ranks = 4, .micro_batches = 8, .window = 4}, "it is for wave");
  refused({.kind = PipelineSchedule::wave, .ranks = 4, .micro_batches = 8, .window = -4}, "window = -4; use 1 or more");
  refused({.kind = PipelineSchedule::one_f_one_b, .ranks = 4, .micro_batches = 8, .memory_cap = 4},
          "has no memory cap");
  refused({.kind = PipelineSchedule::gpipe, .ranks = 1 << 20, .micro_batches = 1 << 20}, "at most 1e+08");
  CHECK_THROWS_AS(schedule_kind_named("1f2b"), ConfigError);
  CHECK_THROWS_WITH(schedule_kind_named("1f2b"),
                    "there is no schedule '1f2b'; use gpipe, 1f1b, interleaved, bfs, zb-h1, "
                    "zb-h2, zb-v, interleaved-zb, chimera, bitpipe, dualpipe, dualpipev, "
                    "zeropp, wave");
  for (const PipelineSchedule split :
       {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2, PipelineSchedule::zb_v, PipelineSchedule::interleaved_zb,
        PipelineSchedule::dualpipe, PipelineSchedule::dualpipev, PipelineSchedule::zeropp})
    refused({.kind = split, .ranks = 4, .micro_batches = 8, .w_pass = true}, "split off already");
}
