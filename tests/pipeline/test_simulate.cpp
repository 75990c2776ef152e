// simulate(): waits, hops, messages, gathers and reductions of a lowered list, pairs, and schedules that cannot run.
#include <catch2/catch.hpp>
#include <limits>

#include "base/error.h"
#include "pipeline/lower.h"

using namespace fp;

namespace {

using enum ActionKind;

// Two ranks, one stage each, one micro-batch.
Schedule two_ranks(std::vector<std::vector<Action>> lists) {
  return {.kind = "test", .placement = {.ranks = 2}, .micro_batches = 1, .ranks = std::move(lists)};
}
Action act(ActionKind kind, int stage, int micro_batch = 0) {
  return {.kind = kind, .stage = stage, .micro_batch = micro_batch};
}

}  // namespace

TEST_CASE("bubbles with a hop of a tenth of a forward pass equal published values", "[pipeline]") {
  struct Known {
    ScheduleRequest request;
    double percent;
  };
  const Known known[] = {{{.kind = PipelineSchedule::one_f_one_b}, 30.6},
                         {{.kind = PipelineSchedule::interleaved}, 19.7},
                         {{.kind = PipelineSchedule::bfs}, 17.5},
                         {{.kind = PipelineSchedule::zb_h1}, 14.9},
                         {{.kind = PipelineSchedule::zb_h2}, 12.1},
                         {{.kind = PipelineSchedule::zb_v}, 10.4},
                         {{.kind = PipelineSchedule::interleaved_zb}, 11.4},
                         {{.kind = PipelineSchedule::chimera, .w_pass = true}, 7.7},
                         {{.kind = PipelineSchedule::bitpipe}, 18.4},
                         {{.kind = PipelineSchedule::bitpipe, .w_pass = true}, 9.1},
                         {{.kind = PipelineSchedule::dualpipe}, 6.6},
                         {{.kind = PipelineSchedule::zeropp}, 7.0}};
  for (const Known& k : known) {
    CAPTURE(name_of(k.request.kind));
    ScheduleRequest q = k.request;
    q.ranks = 4;
    q.micro_batches = 8;
    q.w_pass = false;
    Schedule s = generate(q);
    if (k.request.w_pass) s = split_weight_gradients(s, {}, 0);
    Costs costs;
    costs.hop = 0.1 * s.placement.chunks;
    CHECK(std::abs(100 * simulate(s, costs).bubble - k.percent) < 0.051);  // zb-v: 10.448
  }
}

TEST_CASE("stages with different times and a hop equal a hand calculation", "[pipeline]") {
  Costs costs;
  costs.by_stage = {{2, 3, 4}, {5, 6, 7}};
  costs.hop = 0.5;
  const Timing t =
      simulate(two_ranks({{act(forward, 0), act(backward, 0)}, {act(forward, 1), act(backward, 1)}}), costs);
  CHECK(t.actions[1][0].start == 2.5);
  CHECK(t.actions[1][1].end == 20.5);
  CHECK(t.actions[0][1].start == 21);
  CHECK(t.makespan == 28);
  CHECK(t.work == 18);
  CHECK(t.bubble == Approx(10.0 / 28));
  CHECK(t.span_bubble == Approx(10.0 / 28));
  CHECK(t.peak_chunks == std::vector<int>{1, 1});
  CHECK(t.messages_per_micro_batch == 2);
}

TEST_CASE("a split backward pass sends the input gradient before the weight gradient is done", "[pipeline]") {
  Schedule s = two_ranks({{act(forward, 0), act(backward, 0)}, {act(forward, 1), act(backward, 1)}});
  CHECK(simulate(s, {}).makespan == 6);
  s.ranks[1] = {act(forward, 1), act(backward_input, 1), act(backward_weight, 1)};
  CHECK(simulate(s, {}).makespan == 5);
}

TEST_CASE("a message of a lowered schedule waits for its send and its receive and costs one hop", "[pipeline]") {
  const std::vector<Action> first = {act(forward, 0), act(send_forward, 0), act(receive_backward, 0), act(backward, 0)};
  const std::vector<Action> second = {act(receive_forward, 1), act(forward, 1), act(backward, 1),
                                      act(send_backward, 1)};
  Costs costs;
  costs.hop = 0.25;
  CHECK(simulate(two_ranks({first, second}), costs).makespan == 6.5);
  CHECK(simulate(two_ranks({first, second}), costs).messages_per_micro_batch == 2);

  Schedule late = two_ranks({first, second});  // sent only when the rank has done something else
  late.ranks[0] = {act(forward, 0, 0), act(forward, 0, 1), act(send_forward, 0, 0), act(send_forward, 0, 1)};
  late.ranks[1] = {act(receive_forward, 1, 0), act(receive_forward, 1, 1), act(forward, 1, 0), act(forward, 1, 1)};
  late.micro_batches = 2;
  CHECK(simulate(late, costs).actions[1][2].start == 2.25);

  std::swap(late.ranks[1][1], late.ranks[1][2]);  // the second receive is posted after the first forward
  CHECK(simulate(late, costs).actions[1][3].start == 3.5);

  Schedule broken = two_ranks({first, second});
  broken.ranks[0].erase(broken.ranks[0].begin() + 1);
  CHECK_THROWS_AS(simulate(broken, costs), InternalError);
  broken = two_ranks({first, second});
  broken.ranks[1].erase(broken.ranks[1].begin());
  CHECK_THROWS_AS(simulate(broken, costs), InternalError);
}

TEST_CASE("gathers and reductions overlap the computation and run one after the other", "[pipeline]") {
  Schedule s{.kind = "test", .placement = {.ranks = 1, .chunks = 2}, .micro_batches = 1, .ranks = {}};
  s.ranks = {{act(gather, 0, -1), act(gather, 1, -1), act(forward, 0), act(forward, 1), act(backward, 1),
              act(fp::ActionKind::free, 1, -1), act(reduce, 1, -1), act(backward, 0), act(reduce, 0, -1)}};
  Costs costs;
  costs.gather = 1.5;
  costs.reduce = 4;
  const Timing t = simulate(s, costs);
  CHECK(t.actions[0][2].start == 1.5);
  CHECK(t.actions[0][3].start == 3);
  CHECK(t.actions[0][6].end == 10);
  CHECK(t.actions[0][7].end == 8);
  CHECK(t.makespan == 14);
  CHECK(t.work == 6);
  std::swap(s.ranks[0][4], s.ranks[0][5]);  // freed before its last use
  CHECK_THROWS_AS(simulate(s, costs), InternalError);
}

TEST_CASE("a fused pair needs both inputs at its start and yields both outputs at its end", "[pipeline]") {
  const Schedule s = generate({.kind = PipelineSchedule::dualpipe, .ranks = 2, .micro_batches = 8});
  Costs costs;
  const Timing apart = simulate(s, costs);
  costs.pairs_are_one = true;
  const Timing as_one = simulate(s, costs);
  size_t pairs = 0;
  for (size_t i = 0; i < s.ranks[0].size(); ++i) {
    if (!s.ranks[0][i].paired_with_next) continue;
    ++pairs;
    CHECK(apart.actions[0][i].end == apart.actions[0][i].start + 1);
    CHECK(as_one.actions[0][i].end == as_one.actions[0][i].start + 3);
    CHECK(as_one.actions[0][i].start == as_one.actions[0][i + 1].start);
    CHECK(as_one.actions[0][i].end == as_one.actions[0][i + 1].end);
  }
  CHECK(pairs == 5);  // two in each of three rounds, except the very first
}

TEST_CASE("a schedule that cannot run is reported", "[pipeline]") {
  const std::vector<Action> good = {act(forward, 0), act(backward, 0)};
  CHECK_THROWS_AS(simulate(two_ranks({good, {act(backward, 1), act(forward, 1)}}), {}), InternalError);
  CHECK_THROWS_AS(simulate(two_ranks({good, {act(forward, 1)}}), {}), InternalError);
  CHECK_THROWS_AS(simulate(two_ranks({good, {act(forward, 1, 1)}}), {}), InternalError);
  CHECK_THROWS_AS(simulate(two_ranks({good, {act(forward, 2)}}), {}), InternalError);
  CHECK_THROWS_AS(simulate(two_ranks({good, {act(forward, 1), {.kind = backward, .pipe = 1, .stage = 1}}}), {}),
                  InternalError);
  CHECK_THROWS_AS(simulate(two_ranks({good}), {}), InternalError);
  Schedule crossed = generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 4, .micro_batches = 8});
  std::swap(crossed.ranks[2][0], crossed.ranks[2][3]);
  CHECK_THROWS_AS(simulate(crossed, {}), InternalError);
}

TEST_CASE("fewer messages in flight never shorten the makespan", "[pipeline]") {
  for (const PipelineSchedule kind : schedule_kinds()) {
    const Schedule s = generate({.kind = kind, .ranks = 4, .micro_batches = 8});
    for (const double hop : {0.0, 0.5, 4.0}) {
      INFO(name_of(kind) << ", hop " << hop);
      Costs costs;
      costs.hop = hop;
      const Schedule lowered = lower(s, {.costs = costs});
      const double free = simulate(lowered, costs).makespan;
      double before = std::numeric_limits<double>::infinity();
      for (costs.slots = 1; costs.slots <= 8; ++costs.slots) {
        const double makespan = simulate(lowered, costs).makespan;
        CHECK(makespan >= free);
        CHECK(makespan <= before + 1e-9);
        before = makespan;
      }
      CHECK(before == free);
      costs.slots = 2;  // the executor's default: enough where messages are fast
      if (hop == 0) CHECK(simulate(lowered, costs).makespan == free);
    }
  }
  // Two ranks, breadth first, messages that take as long as four chunks: one in flight throttles the first rank.
  Costs slow;
  slow.hop = 4;
  const Schedule s =
      lower(generate({.kind = PipelineSchedule::gpipe, .ranks = 2, .micro_batches = 8}), {.costs = slow});
  slow.slots = 1;
  const double one = simulate(s, slow).makespan;
  slow.slots = 0;
  CHECK(one > simulate(s, slow).makespan + 8);
}
