// No rank dies or hangs alone: when one fails, all end with one message that names it, and the run can resume from the
// last checkpoint on any mesh.
#include <catch2/catch.hpp>
#include <span>

#include "ranks/job.h"

using namespace fp::test;

namespace {

struct FaultCase {
  std::string kind;
  int rank;
  std::string at;
  int code;                        // expected exit code; 0: any but 0
  std::vector<std::string> words;  // of the message
};

constexpr int kFaultSteps = 12;
const Layout kEight{2, 2, 2, 1};
const std::string kStep = "step=5,phase=step", kEvaluation = "step=6,phase=evaluation", kSave = "step=6,phase=save";
// The checkpoint of step 3 is complete when step 4 begins.
const std::vector<std::string> kAtOnce{"--set", "checkpoint.asynchronous=false"};
const std::string kGone = "is gone: killed, crashed or out of reach. Last known: step ";
const std::string kElsewhere = "is not in the communication that others wait in";

// The first cases of the list: every kind of fault, every phase, and rank 0.
constexpr size_t kSample = 6;
// All of these happen before the save of step 6 is complete.
const std::vector<FaultCase>& cases() {
  static const std::vector<FaultCase> list = {
      {"kill", 3, kStep, 0, {"rank 3 (host ", kGone, ", phase "}},
      {"sleep",
       0,
       kStep,
       76,
       {"Suspect: rank 0 (host ", kElsewhere, "rank 0: step 5, phase step", "step 5, phase step, waiting in "}},
      {"stop", 3, kStep, 76, {"Suspect: rank 3 (host ", "sends no heartbeat", "step 5, phase step, waiting in "}},
      {"throw", 5, kEvaluation, 3, {", step 6, phase evaluation): fault injected by FPTRAIN_FAULT: throw"}},
      {"kill", 2, kSave, 0, {"rank 2 (host ", kGone, ", phase "}},
      {"throw", 0, kStep, 3, {", step 5, phase step): fault injected by FPTRAIN_FAULT: throw"}},
      {"throw", 3, kStep, 3, {", step 5, phase step): fault injected by FPTRAIN_FAULT: throw"}},
      {"sleep",
       3,
       kStep,
       76,
       {"Suspect: rank 3 (host ", kElsewhere, "rank 3: step 5, phase step", "step 5, phase step, waiting in "}},
      {"kill", 0, kStep, 0, {"rank 0 (host ", kGone, ", phase "}},
      {"stop", 0, kStep, 0, {"rank 0 (host ", "is gone: silent for ", "Last known: step "}},
      {"sleep", 5, kEvaluation, 76, {"Suspect: rank 5 (host ", kElsewhere, "rank 5: step 6, phase evaluation"}},
      {"stop", 1, kSave, 76, {"Suspect: rank 1 (host ", "step 6, phase save, waiting in "}}};
  return list;
}

bool stands_still(const FaultCase& c) { return c.kind == "sleep" || c.kind == "stop"; }

// Checks for the stacks of all main threads that still run, including that of the failed rank. (A stopped rank may
// print its own when mpirun wakes it to end it.)
void check_stacks(const Job& job, const FaultCase& c) {
  for (int rank = 0; rank < kEight.ranks(); ++rank) {
    CAPTURE(rank);
    const bool runs = c.kind == "sleep" || rank != c.rank;
    if (runs) CHECK(job.contains(fmt::format("[rank {}]   ", rank)));
  }
  if (c.kind == "sleep") CHECK(job.contains("maybe_fault"));
}

// Injects each fault into a run of eight ranks: all of them end, and the run resumes with the losses of one rank.
void check_faults(std::span<const FaultCase> faults) {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "whole", {}));
  expect_success(w.train(spec, "healthy", kEight, kAtOnce));
  CHECK(worst_loss(w.run_directory("whole"), w.run_directory("healthy"), kFaultSteps) < 1e-5);
  int number = 0;
  for (const FaultCase& c : faults) {
    const std::string name = fmt::format("{}-{}-{}", c.kind, c.rank, c.at);
    const auto directory = w.run_directory(name);
    const std::string fault = fmt::format("rank={},{},kind={}", c.rank, c.at, c.kind);
    // Only the phase in which the rank hangs has a short limit; all others have the default of many minutes.
    std::vector<std::string> more = kAtOnce;
    if (stands_still(c)) {
      const auto limits = short_watchdog(w.run_directory("healthy"), {c.at.substr(c.at.rfind('=') + 1)});
      more.insert(more.end(), limits.begin(), limits.end());
    }
    const bool killed = c.kind == "kill";
    const std::vector<std::string> command = w.train(spec, name, kEight, more);
    Job job(with_fault(fault, killed ? spare_others(command) : command));
    const int code = job.wait();
    const std::string log = slurp(directory / "log.txt");
    CAPTURE(name, code, job.output(), log);
    if (c.code > 0) CHECK(code == c.code);
    if (c.code == 0 && !killed) CHECK(code > 0);
    CHECK(job.processes().empty());
    for (const std::string& words : c.words) {
      CHECK(job.contains(words));
      CHECK_THAT(log, Catch::Contains(words));
    }
    const bool stall = job.contains("the run is stalled");
    CHECK(stall == (stands_still(c) && (c.kind == "sleep" || c.rank != 0)));
    CHECK(job.count("error: ") == (stall ? 2 : 1));  // repeated after the stacks, where it is easy to find
    if (stall) check_stacks(job, c);

    REQUIRE(checkpoints(directory) == std::vector<std::string>{"step-00000003"});
    expect_success(fptrain({"checkpoint", "verify", directory.string()}));
    const Layout other = number++ % 2 == 0 ? kEight : Layout{1, 2, 1, 0};
    expect_success(w.train(spec, name, other, {"--resume", "auto"}));
    CHECK(worst_loss(w.run_directory("whole"), directory, kFaultSteps) < 1e-5);
  }
}

}  // namespace

TEST_CASE("a failure of one of eight ranks ends all, and the run can be resumed", "[ranks]") {
  check_faults(std::span(cases()).first(kSample));
}

TEST_CASE("each failure of one of eight ranks ends all, and the run can be resumed", "[ranks][nightly]") {
  check_faults(cases());
}
