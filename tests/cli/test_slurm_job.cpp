// fptrain train in a Slurm job, with a fake squeue. scripts/test-slurm tests with a real one.
#include <catch2/catch.hpp>

#include "checkpoint/folder.h"
#include "cli/workspace.h"
#include "io/lease.h"

using namespace fp::test;
using Catch::Contains;

namespace {

// A run in job 9. squeue prints `time_left`; if that is empty, there is no squeue.
class JobWorkspace {
 public:
  Outcome start(int restarts, const std::string& time_left, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = files_.train(files_.spec("llama", "fp32"), "run", more);
    command.insert(command.begin(), {"/usr/bin/env", "SLURM_JOB_ID=9",
                                     "SLURM_RESTART_COUNT=" + std::to_string(restarts), "PATH=" + bin(time_left)});
    return run(command);
  }
  std::filesystem::path directory() const { return files_.run_directory("run"); }

 private:
  std::string bin(const std::string& time_left) const {
    const auto folder = files_.root() / "bin";
    std::filesystem::create_directories(folder);
    if (time_left.empty()) return folder;
    std::ofstream(folder / "squeue") << "#!/bin/bash\necho '" << time_left << "'\n";
    std::filesystem::permissions(folder / "squeue", std::filesystem::perms::owner_all);
    return folder;
  }
  Workspace files_;
};

int last_step(const JobWorkspace& w) { return history(w.directory()).rbegin()->first; }

}  // namespace

TEST_CASE("a run saves before its job's time limit, ends with 75 and resumes in the next start", "[cli][slurm]") {
  const JobWorkspace w;
  // Less than the margin, but enough for squeue to answer.
  const Outcome late = w.start(0, "0:59", {"--set", "train.steps=100000", "--set", "eval.every=0"});
  CAPTURE(late.output);
  REQUIRE(late.code == 75);
  CHECK_THAT(late.output, Contains("left of Slurm job 9: a step may take") && Contains("state saved after step"));
  const int first = last_step(w);
  REQUIRE(checkpoints(w.directory()).size() >= 1);

  const std::vector<std::string> some_more = {"--set", "train.steps=" + std::to_string(first + 3)};
  const Outcome done = w.start(1, "1-00:00:00", some_more);
  CAPTURE(done.output);
  CHECK(done.code == 0);
  CHECK(last_step(w) == first + 3);
  CHECK(w.start(2, "", some_more).code == 0);  // already finished; without squeue
}

TEST_CASE("checkpoint.time_margin_s sets the margin before the time limit", "[cli][slurm]") {
  const JobWorkspace w;
  const Outcome o = w.start(0, "0:59", {"--set", "checkpoint.time_margin_s=10"});
  CAPTURE(o.output);
  CHECK(o.code == 0);
}

TEST_CASE("a start is counted from the checkpoint it resumed, not from the newest name", "[cli][slurm]") {
  const JobWorkspace w;
  REQUIRE(w.start(0, "").code == 0);
  REQUIRE(checkpoints(w.directory()) == std::vector<std::string>{"step-00000010", "step-00000020"});
  std::filesystem::resize_file(w.directory() / "checkpoints" / "step-00000020" / "rank-00000.h5", 100);
  for (int restarts = 1; restarts < 5; ++restarts) {
    const Outcome o = w.start(restarts, "0:59", {"--set", "train.steps=100000", "--set", "eval.every=0"});
    CAPTURE(restarts, o.output);
    CHECK(o.code == 75);
    CHECK(last_step(w) > 9 + restarts);
    const auto starts = nlohmann::json::parse(slurp(w.directory() / "restarts.json")).at("starts");
    CHECK(starts.back().at("restarts") == restarts);
    CHECK(starts.back().at("step").get<int>() >= 9 + restarts);
  }
}

TEST_CASE("a start with --resume PATH begins at that checkpoint's step and leaves a folder in use alone",
          "[cli][slurm]") {
  const JobWorkspace w;
  REQUIRE(w.start(0, "").code == 0);
  const auto ten = w.directory() / "checkpoints" / "step-00000010", file = w.directory() / "restarts.json";
  for (const std::string& name : checkpoints(w.directory()))
    if (name > ten.filename().string()) std::filesystem::remove_all(w.directory() / "checkpoints" / name);
  const Outcome o = w.start(1, "", {"--resume", ten.string(), "--set", "train.steps=12"});
  CAPTURE(o.output);
  CHECK(o.code == 0);
  const std::string before = slurp(file);
  CHECK(nlohmann::json::parse(before).at("starts").back().at("step") == 10);
  const fp::Lease other(fp::lease_file(w.directory()));
  CHECK(w.start(2, "").code == 3);
  CHECK(slurp(file) == before);
}

TEST_CASE("a job that never completes its set-up is ended at the third start", "[cli][slurm]") {
  const JobWorkspace w;
  const std::vector<std::string> fails = {"--resume", "/nowhere"};
  for (int restarts = 0; restarts < 2; ++restarts) CHECK(w.start(restarts, "", fails).code == 3);
  const Outcome third = w.start(2, "", fails);
  CAPTURE(third.output);
  CHECK(third.code == 2);
  CHECK_THAT(third.output, Contains("did not get through set-up"));
}

TEST_CASE("a job that never reaches its first save is ended at the third start", "[cli][slurm]") {
  const JobWorkspace w;
  const std::vector<std::string> fails = {"--set", "checkpoint.every=0", "--set", "checkpoint.at_end=false"};
  for (int restarts = 0; restarts < 2; ++restarts) {
    const Outcome o = w.start(restarts, "", fails);
    CAPTURE(o.output);
    CHECK(o.code == 0);  // ends without a save
  }
  const Outcome third = w.start(2, "", fails);
  CAPTURE(third.output);
  CHECK(third.code == 2);
  CHECK_THAT(third.output, Contains("Slurm job 9 makes no progress") && Contains("start 3 in a row from step 0"));
}
