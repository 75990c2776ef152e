#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "every_kind.h"
#include "interpreter.h"
#include "pipeline/flow.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"

using namespace fp;
using namespace fp::test;

namespace {

std::string row(const Schedule& s, size_t r) {
  std::string text;
  for (const Action& a : s.ranks[r]) text += (text.empty() ? "" : " ") + to_text(a);
  return text;
}

std::string without_messages(const Schedule& s, size_t r, size_t last) {
  std::vector<std::string> texts;
  for (const Action& a : s.ranks[r])
    if (!is_send(a.kind) && !is_receive(a.kind)) texts.push_back(to_text(a));
  std::string text;
  for (size_t i = texts.size() - std::min(last, texts.size()); i < texts.size(); ++i)
    text += (text.empty() ? "" : " ") + texts[i];
  return text;
}

Schedule of(PipelineSchedule kind, int p, int m, int v = 0) {
  return generate({.kind = kind, .ranks = p, .micro_batches = m, .chunks = v});
}

int count(const std::vector<Action>& list, ActionKind kind) {
  return static_cast<int>(std::count_if(list.begin(), list.end(), [&](const Action& a) { return a.kind == kind; }));
}

}  // namespace

TEST_CASE("messages and reductions are inserted in the right places", "[pipeline]") {
  const Schedule s = lower(of(PipelineSchedule::one_f_one_b, 2, 3), {});
  CHECK(row(s, 0) == "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0RECV_B1 0SEND_F2 0B1 0RECV_B2 0B2 0REDUCE_GRAD");
  CHECK(row(s, 1) == "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1REDUCE_GRAD 1SEND_B2");
}

TEST_CASE("a rank receives the messages of another in the order in which that sends them", "[pipeline]") {
  const Costs uneven{.each = {1, 1.3, 0.7}, .by_stage = {}, .hop = 0.4};
  const auto check_order = [](const Schedule& s) {
    const Flow flow(s);
    std::map<std::pair<int, int>, std::vector<int>> sent, received;  // by producing and consuming rank: outputs
    for (const auto& list : s.ranks)
      for (const Action& a : list) {
        if (!is_send(a.kind) && !is_receive(a.kind)) continue;
        const int output = is_send(a.kind) ? flow.output_of(a) : flow.input_of(a);
        (is_send(a.kind) ? sent : received)[{flow.producer(output), flow.consumer(output)}].push_back(output);
      }
    CHECK(sent == received);
  };
  for (const int p : {2, 4, 6})
    for (const Schedule& s : every_kind(p, 2 * p))
      for (const Costs& costs : {Costs(), uneven}) {
        CAPTURE(p, s.kind);
        check_order(lower(s, {.costs = costs}));
        check_order(lower(forward_only(s.placement, 2 * p), {.costs = costs, .gather = true}));
      }
  for (const int chunks : {4, 16})
    check_order(lower(of(PipelineSchedule::interleaved, 4, 8, chunks), {.costs = uneven, .reduce_every = 1}));
}

TEST_CASE("a single rank sends no messages", "[pipeline]") {
  CHECK(row(lower(of(PipelineSchedule::one_f_one_b, 1, 2), {}), 0) == "0F0 0B0 0F1 0B1 0REDUCE_GRAD");
  CHECK(row(lower(of(PipelineSchedule::interleaved, 1, 1, 2), {}), 0) == "0F0 1F0 1B0 1REDUCE_GRAD 0B0 0REDUCE_GRAD");
}

TEST_CASE("lowering keeps the order of compute actions and yields a correct step for every kind", "[pipeline]") {
  for (const int p : {2, 4, 6})
    for (const int m : {2 * p, 4 * p})
      for (Schedule& s : every_kind(p, m))
        for (const bool gather : {false, true})
          for (const int every : {0, 1, 3}) {
            CAPTURE(s.kind, p, m, gather, every);
            LoweringOptions options{.gather = gather, .reduce_every = every};
            const Schedule lowered = lower(s, options);
            CHECK(interpret(lowered, options).empty());
            // Even if every send waits for its own receive.
            options.sends_in_flight = 0;
            CHECK(interpret(lowered, options).empty());
            for (size_t r = 0; r < s.ranks.size(); ++r) {
              std::vector<Action> computed = lowered.ranks[r];
              std::erase_if(computed, [](const Action& a) { return !is_compute(a.kind); });
              for (Action& a : s.ranks[r]) a.paired_with_next = false;
              CHECK(computed == s.ranks[r]);
            }
          }
}

TEST_CASE("lowering does not lengthen the makespan", "[pipeline]") {
  for (const Schedule& s : every_kind(4, 8))
    for (const double hop : {0.0, 0.25, 1.5}) {
      CAPTURE(s.kind, hop);
      Costs costs;
      costs.hop = hop;
      const Schedule lowered = lower(s, {.costs = costs, .gather = true, .reduce_every = 1});
      CHECK(simulate(lowered, costs).makespan == simulate(s, costs).makespan);
    }
}

TEST_CASE("lowering works for actions that take no time", "[pipeline]") {
  for (const Schedule& s : every_kind(4, 8))
    for (const StageCosts each : {StageCosts{0, 0, 0}, {1, 1, 0}, {0, 1, 1}, {1, 0, 0}}) {
      CAPTURE(s.kind, each.forward, each.backward_input, each.backward_weight);
      LoweringOptions options{.sends_in_flight = 1};
      options.costs.each = each;
      CHECK(interpret(lower(s, options), options).empty());
    }
}

TEST_CASE("a reduction follows its last gradient unless a two-way schedule reduces once per step", "[pipeline]") {
  for (const Schedule& s : every_kind(4, 8))
    for (const int every : {0, 1, 3}) {
      if (every == 0 && s.placement.two_way) continue;
      CAPTURE(s.kind, every);
      for (const auto& list : lower(s, {.gather = true, .reduce_every = every}).ranks)
        for (size_t i = 0; i < list.size(); ++i)
          if (list[i].kind == ActionKind::reduce)
            CHECK((completes_gradient(list.at(i - 1).kind) && list[i - 1].stage == list[i].stage));
    }
}

TEST_CASE("pairs that run as one stay together", "[pipeline]") {
  for (const PipelineSchedule kind : {PipelineSchedule::dualpipe, PipelineSchedule::dualpipev})
    for (const int resident : {2, 3}) {
      LoweringOptions options{.gather = true, .resident = resident};
      options.costs.pairs_are_one = true;
      const Schedule s = of(kind, 4, 12), lowered = lower(s, options);
      CHECK(interpret(lowered, options).empty());
      for (size_t r = 0; r < s.ranks.size(); ++r) {
        std::vector<Action> computed = lowered.ranks[r];
        std::erase_if(computed, [](const Action& a) { return !is_compute(a.kind); });
        CHECK(computed == s.ranks[r]);
        for (size_t i = 0; i < lowered.ranks[r].size(); ++i)
          if (lowered.ranks[r][i].paired_with_next) CHECK(lowered.ranks[r].at(i + 1).kind == ActionKind::backward);
      }
    }
}

TEST_CASE("two-way schedules reduce while they wait and both ranks of a pair reduce in the same order", "[pipeline]") {
  const Schedule s = lower(of(PipelineSchedule::bitpipe, 4, 8), {});
  CHECK(without_messages(s, 0, 12) ==
        "7F3 7B3 7REDUCE_GRAD u:4B2 u:3B2 u:4B3 u:3B3 0B2 4REDUCE_GRAD 3REDUCE_GRAD 0B3 0REDUCE_GRAD");
  CHECK(without_messages(s, 1, 6) == "u:2B3 1B3 6REDUCE_GRAD 5REDUCE_GRAD 2REDUCE_GRAD 1REDUCE_GRAD");
  CHECK(without_messages(s, 2, 6) == "2B3 u:1B3 6REDUCE_GRAD 5REDUCE_GRAD 2REDUCE_GRAD 1REDUCE_GRAD");
  CHECK(without_messages(s, 3, 5) == "u:0B2 4REDUCE_GRAD 3REDUCE_GRAD u:0B3 0REDUCE_GRAD");
}

// A stage is reduced layer by layer, so the first of its two ranks waits until the second is there. Here rank 0 has
// finished the upward pipe when rank 1 needs its output for the same stage of the other pipe.
TEST_CASE("ranks that share a stage reduce it at the same time", "[pipeline]") {
  const Schedule s = schedule_from_csv(
      "# fptrain schedule: ranks=2 chunks=1 zigzag=0 two_way=1 micro_batches=4\n"
      "u:1F0,u:1B0,u:1F1,u:1B1,0F0,0B0,0F1,0B1\n"
      "u:0F0,u:0B0,u:0F1,u:0B1,1F0,1B0,1F1,1B1\n",
      "turns.csv");
  Schedule lowered = lower(s, {});
  CHECK(verify_lowered(lowered, {}).empty());
  CHECK(without_messages(lowered, 0, 3) == "0B1 1REDUCE_GRAD 0REDUCE_GRAD");
  CHECK(without_messages(lowered, 1, 3) == "1B1 1REDUCE_GRAD 0REDUCE_GRAD");

  const auto is_sum = [](const Action& a) { return a.kind == ActionKind::reduce; };
  const auto is_second = [](const Action& a) { return a.kind == ActionKind::forward && a.pipe == 0; };
  std::vector<Action>& list = lowered.ranks[0];
  const auto sum = std::find_if(list.begin(), list.end(), is_sum), second = std::find_if(list.begin(), sum, is_second);
  std::rotate(second, sum, sum + 1);  // moved to right after rank 0's own last gradient
  const std::vector<std::string> problems = verify_lowered(lowered, {});
  REQUIRE(!problems.empty());
  CHECK_THAT(problems.front(), Catch::Contains("waits for ever for 1REDUCE_GRAD of rank 1"));
}

TEST_CASE("a rank gathers each stage as often as published", "[pipeline]") {
  struct Known {
    ScheduleRequest request;
    double gathers[3];  // of a stage with 1, 2, 3 at a time, mean over the ranks
  };
  const ScheduleRequest any{.ranks = 4, .micro_batches = 16, .chunks = 4};
  Known known[] = {
      {any, {1.75, 1.5, 1.25}}, {any, {3.25, 2.5, 1.75}}, {any, {6.25, 4.5, 2.75}}, {any, {20, 4.5, 2.75}}};
  known[0].request.kind = PipelineSchedule::bfs;
  known[1].request.kind = known[2].request.kind = PipelineSchedule::zeropp;
  known[1].request.unit_size = 8;
  known[1].request.warmup = 2;
  known[2].request.unit_size = 4;
  known[2].request.warmup = 1;
  known[3].request.kind = PipelineSchedule::interleaved;
  for (const Known& k : known)
    for (int resident = 1; resident <= 3; ++resident) {
      const LoweringOptions options{.gather = true, .resident = resident};
      const Schedule s = lower(generate(k.request), options);
      CAPTURE(name_of(k.request.kind), k.request.unit_size, resident);
      int gathers = 0;
      for (const auto& list : s.ranks) {
        gathers += count(list, ActionKind::gather);
        CHECK(count(list, ActionKind::free) == count(list, ActionKind::gather));
      }
      CHECK(gathers == 16 * k.gathers[resident - 1]);
    }
}

TEST_CASE("a stage is gathered right after the last use of the stage that it replaces", "[pipeline]") {
  const LoweringOptions options{.gather = true, .resident = 2};
  for (const Schedule& s : every_kind(4, 8))
    for (const auto& list : lower(s, options).ranks) {
      CAPTURE(s.kind);
      const Action* used = nullptr;
      for (size_t i = 0; i < list.size(); ++i) {
        if (is_compute(list[i].kind)) used = &list[i];
        if (list[i].kind == ActionKind::free)
          CHECK((used->stage == list[i].stage && used->kind != ActionKind::backward_weight));
        if (list[i].kind == ActionKind::gather) CHECK((used == nullptr || list[i - 1].kind == ActionKind::free));
      }
    }
}
