#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <random>

#include "every_kind.h"
#include "interpreter.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"

using namespace fp;
using namespace fp::test;

namespace {

Schedule schedule_of(PipelineSchedule kind, int p, int m, int v = 0) {
  return generate({.kind = kind, .ranks = p, .micro_batches = m, .chunks = v});
}

// Inserts random faults into a schedule.
class Saboteur {
 public:
  explicit Saboteur(unsigned seed) : random_(seed) {}

  // Returns a copy with one change, which may be harmless or no change at all.
  Schedule insert(const Schedule& valid) {
    Schedule s = valid;
    const size_t r = below(s.ranks.size());
    std::vector<Action>& list = s.ranks[r];
    const size_t i = below(list.size()), j = below(list.size());
    switch (below(12)) {
      case 0:
        std::swap(list[i], list[j]);
        break;
      case 1:
        std::swap(list[i], list[std::min(i + 1 + below(3), list.size() - 1)]);
        break;
      case 2:
        list.erase(at(list, i));
        break;
      case 3:
        list.insert(at(list, j), list[i]);
        break;
      case 4:
        list[i].stage = static_cast<int>(below(static_cast<size_t>(s.placement.stages())));
        break;
      case 5:
        list[i].micro_batch = static_cast<int>(below(static_cast<size_t>(s.of_pipe())));
        break;
      case 6:
        list[i].pipe ^= 1;
        break;
      case 7: {
        std::vector<Action>& other = s.ranks[below(s.ranks.size())];
        other.insert(at(other, below(other.size() + 1)), list[i]);
        list.erase(at(list, std::min(i, list.size() - 1)));
        break;
      }
      case 8:
        list[i].kind = static_cast<ActionKind>(below(kActionKinds));
        break;
      case 9:
        move(list, i, j);
        break;
      case 10:
        exchange_micro_batches(list, i);
        break;
      default:
        move_rare(list);
        break;
    }
    return s;
  }

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  static std::vector<Action>::iterator at(std::vector<Action>& list, size_t i) {
    return list.begin() + static_cast<ptrdiff_t>(i);
  }
  static void move(std::vector<Action>& list, size_t from, size_t to) {
    const Action a = list[from];
    list.erase(at(list, from));
    list.insert(at(list, to), a);
  }
  // Swaps the micro-batches of two actions of the same kind and stage: two sends of a channel, two receives, two W.
  void exchange_micro_batches(std::vector<Action>& list, size_t i) {
    for (size_t tries = 0; tries < list.size(); ++tries) {
      Action& b = list[below(list.size())];
      if (b.kind != list[i].kind || b.stage != list[i].stage || b.pipe != list[i].pipe) continue;
      if (b == list[i]) continue;
      return std::swap(b.micro_batch, list[i].micro_batch);
    }
  }
  // Moves a gather, a free or a reduction.
  void move_rare(std::vector<Action>& list) {
    std::vector<size_t> rare;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].micro_batch < 0) rare.push_back(i);
    if (!rare.empty()) move(list, rare[below(rare.size())], below(list.size()));
  }

  std::mt19937 random_;
};

struct Tally {
  int inserted = 0, harmful = 0, missed = 0;
};

void check_fault(const Schedule& faulty, const LoweringOptions& options, Tally& tally) {
  const std::string harm = interpret(faulty, options);
  const std::vector<std::string> reports = verify_lowered(faulty, options);
  ++tally.inserted;
  tally.harmful += harm.empty() ? 0 : 1;
  if (harm.empty() == reports.empty()) return;
  CAPTURE(harm, reports, to_csv(faulty));
  // Harmless, but not as requested: reductions of other numbers of gradients, gathers or reductions of a micro-batch.
  if (harm.empty())
    CHECK(std::all_of(reports.begin(), reports.end(), [](const std::string& line) {
      return line.find("gradients with") != line.npos || line.find("expected no micro-batch") != line.npos;
    }));
  else
    CHECK(++tally.missed == 0);
}

std::vector<std::string> verify_csv(const std::string& csv) { return verify(schedule_from_csv(csv, "test")); }
std::vector<std::string> verify_lowered_csv(const std::string& csv, const LoweringOptions& options = {}) {
  return verify_lowered(schedule_from_csv(csv, "test"), options);
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lowered schedules of every kind are valid", "[pipeline]") {
  for (const int p : {2, 4, 8})
    for (const Schedule& s : every_kind(p, 2 * p))
      for (const bool gather : {false, true})
        for (const int every : {0, 1, 5}) {
          CAPTURE(s.kind, p, gather, every);
          CHECK(verify(s) == Lines{});
          LoweringOptions options{.sends_in_flight = 1 + p % 3, .gather = gather, .reduce_every = every};
          for (int resident = 1; resident <= 3; ++resident) {
            options.resident = resident;
            CHECK(verify_lowered(lower(s, options), options) == Lines{});
            const Schedule forward = forward_only(s.placement, 2 * p);
            CHECK(verify_lowered(lower(forward, options), options) == Lines{});
          }
        }
}

TEST_CASE("every inserted fault that breaks a schedule is reported", "[pipeline][slow]") {
  unsigned seed = 1;
  for (const Schedule& computed : every_kind(4, 8))
    for (const bool gather : {false, true})
      for (const int every : {0, 2}) {
        const LoweringOptions options{.gather = gather, .resident = 2, .reduce_every = every};
        const Schedule s = lower(computed, options);
        Saboteur faults(seed++);
        Tally tally;
        for (int n = 0; n < 1000; ++n) {
          const Schedule faulty = faults.insert(s);
          if (faulty.ranks != s.ranks) check_fault(faulty, options, tally);
        }
        CAPTURE(s.kind, gather, every);
        CHECK(tally.missed == 0);
        CHECK(2 * tally.harmful > tally.inserted);
        CHECK(tally.inserted > 800);
      }
}

TEST_CASE("schedules that verify accepts can be lowered and run", "[pipeline]") {
  unsigned seed = 1000;
  int right = 0, wrong = 0;
  for (const Schedule& s : every_kind(4, 8)) {
    Saboteur faults(seed++);
    for (int n = 0; n < 400; ++n) {
      const Schedule faulty = faults.insert(s);
      if (!verify(faulty).empty()) {
        ++wrong;
        continue;
      }
      ++right;
      CAPTURE(to_csv(faulty));
      CHECK(interpret(lower(faulty, {}), {}).empty());
    }
  }
  CHECK(right > 100);
  CHECK(wrong > 2000);
}

TEST_CASE("errors name the rank, the action and what is expected", "[pipeline]") {
  CHECK(verify_csv("0F0,0B0\n1F0,1B0\n") == Lines{});
  CHECK(verify_csv("0F0,0B0\n1B0,1F0\n") == Lines{"rank 1, action 0 (1B0): expected after action 1"});
  CHECK(verify_csv("0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n") == Lines{"rank 0: 0I1 is missing", "rank 0: 0W1 is missing"});
  CHECK(verify_csv("0F0,0B0,0W0\n1F0,1B0\n") == Lines{"rank 0, action 2 (0W0): action 1 does that already"});
  CHECK(verify_csv("0F0,0F0,0B0\n1F0,1B0\n") == Lines{"rank 0, action 1 (0F0): action 0 is the same; expected once"});
  CHECK(verify_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n") ==
        Lines{"rank 0, action 1 (0B0): waits for ever for 1B0 of rank 1, which stands at action 0 (1F1)",
              "rank 1, action 0 (1F1): waits for ever for 0F1 of rank 0, which stands at action 1 (0B0)"});
  CHECK(verify_csv("0F0,0RECV_B0,0B0\n1F0,1B0\n") ==
        Lines{"expected compute actions only, but there are messages, gathers or reductions"});
}

TEST_CASE("errors in messages, gathers and reductions are reported", "[pipeline]") {
  const std::string first = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n";
  const std::string second = "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n";
  const auto faulty = [](std::string row, const std::string& from, const std::string& to) {
    return row.replace(row.find(from), from.size(), to);
  };
  const auto only = [](const std::string& csv, const std::string& line, const LoweringOptions& options = {}) {
    CHECK(verify_lowered_csv(csv, options) == Lines{line});
  };
  CHECK(verify_lowered_csv(first + second) == Lines{});
  only(faulty(first, "0SEND_F0,", "") + second, "rank 0: 0SEND_F0 is missing");
  only(first + faulty(second, "1RECV_F1,", ""), "rank 1: 1RECV_F1 is missing");
  only(faulty(first, "0F1,0SEND_F1", "0SEND_F1,0F1") + second,
       "rank 0, action 2 (0SEND_F1): expected after action 3, which produces it");
  only(first + faulty(second, "1RECV_F0,1F0", "1F0,1RECV_F0"),
       "rank 1, action 1 (1RECV_F0): expected before action 0, which uses it");
  only(first + "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n",
       "rank 1, action 0 (1RECV_F1): is message 0 of its channel, but rank 0 sends 0SEND_F0 as that; expected the same "
       "order on both sides");
  only(faulty(first, ",0REDUCE_GRAD", "") + second, "rank 0: 2 gradients of stage 0 are never reduced");
  only(faulty(first, "0RECV_B1", "0REDUCE_GRAD,0RECV_B1") + second,
       "rank 0, action 6 (0REDUCE_GRAD): reduces 1 gradients with 1 to come; expected all");
  only("0UNSHARD," + first + second, "rank 0, action 0 (0UNSHARD): expected none: the weights are not sharded");
  only("0UNSHARD," + faulty(first, "0B1", "0B1,0RESHARD") + "1UNSHARD," + faulty(second, "1B1", "1RESHARD,1B1"),
       "rank 1, action 8 (1B1): the weights are not gathered; expected 1UNSHARD before",
       {.gather = true, .resident = 1});
}

TEST_CASE("deadlocks of messages and of collectives are found", "[pipeline]") {
  SECTION("more sends in flight than the receiver has posted") {
    const std::string csv =
        "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3,"
        "0REDUCE_GRAD\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2,1RECV_F3,1F3,1B3,1SEND_B3,"
        "1REDUCE_GRAD\n";
    CHECK(verify_lowered_csv(csv, {.sends_in_flight = 2}) == Lines{});
    CHECK(verify_lowered_csv(csv, {.sends_in_flight = 1}) ==
          Lines{"rank 0, action 7 (0SEND_F3): waits for ever for 1RECV_F2 of rank 1, which stands at action 7 "
                "(1SEND_B1)",
                "rank 1, action 7 (1SEND_B1): waits for ever for 0RECV_B0 of rank 0, which stands at action 7 "
                "(0SEND_F3)"});
  }
  SECTION("ranks of a pair that gather in different orders") {
    LoweringOptions options{.gather = true, .resident = 2};
    Schedule s = lower(schedule_of(PipelineSchedule::chimera, 2, 2), options);
    REQUIRE(s.ranks[0][0].kind == ActionKind::gather);
    REQUIRE(s.ranks[0][1].kind == ActionKind::gather);
    std::swap(s.ranks[0][0], s.ranks[0][1]);
    CHECK(verify_lowered(s, options) ==
          Lines{"rank 0, action 0 (1UNSHARD): is collective 0 of its rank; rank 1, which shares the stage, has "
                "0UNSHARD there"});
  }
}

TEST_CASE("simulate, lower and verify take time linear in the schedule's length", "[pipeline]") {
  const auto seconds_of = [](int micro_batches) {
    const std::clock_t begin = std::clock();
    const Schedule s = schedule_of(PipelineSchedule::interleaved, 64, micro_batches, 4);
    CHECK(simulate(s, {}).makespan == 3 * (micro_batches * 4 + 63));
    CHECK(verify(s).empty());
    const Schedule lowered = lower(s, {});
    CHECK(verify_lowered(lowered, {}).empty());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  // Eight times the work takes about eight times as long, not 64 times.
  double few = seconds_of(64);
  for (int i = 0; i < 2; ++i) few = std::min(few, seconds_of(64));
  const double many = seconds_of(512);
  CAPTURE(few, many);
  CHECK(many < 32 * few);
}
