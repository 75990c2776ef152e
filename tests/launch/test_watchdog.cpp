// Tests of runs that stall, and of runs that only seem to; each rank is a process.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "launch/placement.h"
#include "launch/ranks.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int kWatchedRanks = 8;
constexpr double kTimeout = 1.5;
// The hub checks every heartbeat, and calls a rank silent after three.
constexpr double kHeartbeat = 0.1, kLate = 4 * kHeartbeat;
// A hub that ends the run waits this long, at most twice, for ranks that do not answer.
constexpr double kDrain = 3;
const LifelineOptions watchdog_options{
    .heartbeat_s = kHeartbeat, .timeouts_s = {{"step", kTimeout}}, .connect_s = 30, .end = generous_end()};
const CommRecord::Entry reduce{"data", CommKind::all_reduce, 345};

std::string watched_process(const RanksOutcome& o, int rank) {
  return fmt::format("rank {} (host {}, pid {})", rank, host_name(), o.pids[rank]);
}

// Ends a wait, and closes only after all ranks have reported that.
void finish_together(RankContext c) {
  c.record.end_wait();
  c.clock.sleep_s(2.5 * kHeartbeat);
  c.lifeline.close();
}

}  // namespace

// Not in the namespace above: the test looks for its name in the stack of a rank.
[[gnu::noinline]] void forget_the_all_reduce(RankContext c) {
  c.record.begin_wait({"data", CommKind::all_reduce, 344});
  c.record.end_wait();
  c.clock.sleep_for_ever();
}

TEST_CASE("a rank missing from a communication is identified and all ranks print their stacks and end") {
  const RanksOutcome o = run_ranks(kWatchedRanks, watchdog_options, [](RankContext c) {
    c.record.enter_phase("step", 12);
    c.mark_fault();
    if (c.rank == 3) forget_the_all_reduce(c);
    wait_in(c, reduce);
  });
  INFO(o.text);
  CHECK(o.codes == all(kWatchedRanks, 76));
  const std::string verdict = "Suspect: " + watched_process(o, 3) + ": is not in the communication";
  CHECK(o.count(verdict) == 2);
  CHECK(o.text.rfind(verdict) > o.text.rfind("]   "));  // repeated after all stacks
  CHECK(o.says("\n  ranks 0-2,4-7: step 12, phase step, waiting in all_reduce of data #345\n"));
  CHECK(o.says("\n  rank 3: step 12, phase step, working since all_reduce of data #344\n"));
  for (int rank = 0; rank < kWatchedRanks; ++rank) CHECK(o.count(fmt::format("[rank {}]   ", rank)) > 3);
  CHECK(o.says("forget_the_all_reduce(fp::test::RankContext)"));
  CHECK(o.after_fault_s > kTimeout - kHeartbeat / 2);  // the hub adds up heartbeats, which rounds
  CHECK(o.after_fault_s < kTimeout + kLate + 2 * kDrain);
}

TEST_CASE("a rank in another communication than the others is identified") {
  const RanksOutcome o = run_ranks(4, watchdog_options, [](RankContext c) {
    c.record.enter_phase("step", 12);
    wait_in(c, c.rank == 0 ? CommRecord::Entry{"data", CommKind::all_gather, 345} : reduce);
  });
  INFO(o.text);
  CHECK(o.codes == all(4, 76));
  CHECK(o.says("Suspect: " + watched_process(o, 0) + ": waits in another communication"));
  CHECK(o.says("\n  rank 0: step 12, phase step, waiting in all_gather of data #345\n"));
}

TEST_CASE("a stopped rank is reported as silent and the others end without it") {
  const RanksOutcome o = run_ranks(kWatchedRanks, watchdog_options,
                                   [](RankContext c) {
                                     c.record.enter_phase("step", 12);
                                     if (c.rank != 3) wait_in(c, reduce);
                                     c.mark_fault();
                                     ::raise(SIGSTOP);
                                   },
                                   {.stopped = 3});
  auto expected = all(kWatchedRanks, 76);
  expected[3] = -1;
  INFO(o.text);
  CHECK(o.codes == expected);
  CHECK(o.says("warning: " + watched_process(o, 3) + " has been silent for"));
  CHECK(o.says("Suspect: " + watched_process(o, 3) + ": sends no heartbeat"));
  CHECK(o.after_fault_s < kTimeout + kLate + 2 * kDrain);
}

TEST_CASE("when rank 0 is stopped the others end by themselves") {
  const RanksOutcome o = run_ranks(kWatchedRanks, watchdog_options,
                                   [](RankContext c) {
                                     c.record.enter_phase("step", 12);
                                     if (c.rank != 0) wait_in(c, reduce);
                                     c.clock.sleep_s(0.3);
                                     c.mark_fault();
                                     ::raise(SIGSTOP);
                                   },
                                   {.stopped = 0});
  auto expected = all(kWatchedRanks, 76);
  expected[0] = -1;
  INFO(o.text);
  CHECK(o.codes == expected);
  CHECK(o.count("is gone: silent for") == 1);
  CHECK(o.says("[rank 1] error: " + watched_process(o, 0) + " is gone: silent for"));
  CHECK(o.after_fault_s < kTimeout + 2 * kLate);
}

TEST_CASE("when rank 0 is stopped the rank that logs it ends first") {
  for (int round = 0; round < 5; ++round) {
    const RanksOutcome o = run_ranks(kWatchedRanks, watchdog_options,
                                     [](RankContext c) {
                                       c.record.enter_phase("step", 12);
                                       if (c.rank != 0) wait_in(c, reduce);
                                       c.clock.sleep_s(0.3);
                                       ::raise(SIGSTOP);
                                     },
                                     {.launcher_kills = true});
    INFO(o.text);
    CHECK(o.codes[1] == 76);
    CHECK(o.says("[rank 1] error: " + watched_process(o, 0) + " is gone: silent for"));
  }
}

TEST_CASE("a run that was stopped as a whole continues") {
  const auto stop = [](RankContext c) {
    c.record.enter_phase("step", 12);
    ::raise(SIGSTOP);
    c.clock.sleep_s(0.5);
    c.lifeline.close();
  };
  const RanksOutcome o = run_ranks(2, watchdog_options, stop, {.all_stopped_s = 2 * kTimeout});
  INFO(o.text);
  CHECK(o.codes == all(2, 0));
  CHECK_FALSE(o.says("error"));
}

TEST_CASE("a rank may work alone while the others wait as long as it makes progress") {
  const RanksOutcome o = run_ranks(4, watchdog_options, [](RankContext c) {
    c.record.enter_phase("step", 12);
    if (c.rank == 2) {
      for (int64_t i = 0; i < 30; ++i) {
        c.clock.sleep_s(kTimeout / 10);
        c.record.enter_phase("step", 12);
      }
    } else {
      c.record.begin_wait(reduce);
      c.clock.sleep_s(3 * kTimeout);
    }
    finish_together(c);
  });
  INFO(o.text);
  CHECK(o.codes == all(4, 0));
  CHECK(o.text == "");
}

TEST_CASE("a phase without a timeout is never a stall") {
  const RanksOutcome o = run_ranks(2, watchdog_options, [](RankContext c) {
    c.record.enter_phase(c.rank == 0 ? "save" : "step", 12);
    if (c.rank != 0) c.record.begin_wait(reduce);
    c.clock.sleep_s(2 * kTimeout);
    finish_together(c);
  });
  INFO(o.text);
  CHECK(o.codes == all(2, 0));
  CHECK(o.text == "");
}

TEST_CASE("the record that is watched last is the one that counts") {
  const RanksOutcome o = run_ranks(2, watchdog_options, [](RankContext c) {
    c.record.enter_phase("save", 0);  // without a timeout
    CommRecord of_device;
    of_device.enter_phase("step", 12);
    c.lifeline.watch(of_device);
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(2, 76));
  CHECK(o.says("\n  ranks 0-1: step 12, phase step\n"));
}

TEST_CASE("a run of one rank can stall") {
  const RanksOutcome o = run_ranks(1, watchdog_options, [](RankContext c) {
    c.record.enter_phase("step", 12);
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(1, 76));
  CHECK(o.says("the run is stalled"));
  CHECK(o.says("\n  rank 0: step 12, phase step\n"));
}

TEST_CASE("an error of a device's communication ends all ranks even if no thread waits for it") {
  const RanksOutcome o = run_ranks(3, watchdog_options, [](RankContext c) {
    c.record.enter_phase("save", 12);
    c.mark_fault();
    if (c.rank == 1) c.record.set_error("group data: NCCL: remote process exited");
    c.clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(3, 76));
  CHECK(o.count("group data: NCCL: remote process exited") == 1);
  CHECK(o.after_fault_s < kLate + 3 * kDrain);
}
