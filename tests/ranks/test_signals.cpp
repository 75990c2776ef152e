// Stop signals: wherever one arrives, all ranks save after the same step and end with 75, and the run that goes on is
// bit for bit the one that was not stopped.
#include <catch2/catch.hpp>
#include <ctime>

#include "ranks/job.h"

using namespace fp::test;

namespace {

const Layout kLayout{2, 1, 2, 2};

// Each step is the same however many are to come.
std::vector<std::string> steps(int count) {
  return {"--set", fmt::format("train.steps={}", count), "--set", "schedule.kind=constant", "--set", "eval.every=0"};
}

// However late a signal comes, there is nothing to save yet.
const std::string kNoFurther = "rank=0,step=0,phase=set-up,kind=sleep";

// Two ranks that measure and plan, and get no further than set-up.
std::vector<std::string> in_set_up(const RanksWorkspace& w, const std::string& name) {
  return with_fault(kNoFurther, mpirun(2, {"train", w.spec("llama").string(), "--set",
                                           "run.directory=" + w.run_directory(name).string(), "--set", "parallel=auto",
                                           "--set", "train.micro_batch=1"}));
}

}  // namespace

TEST_CASE("a stop signal to all ranks in set-up ends the run at once", "[ranks]") {
  const RanksWorkspace w;
  Job job(with_fault(kNoFurther, w.train(w.spec("llama"), "early", Layout{}, {"--set", "parallel=auto"})));
  Job two(in_set_up(w, "two"));
  for (Job* j : {&job, &two}) {
    j->wait_for("measuring");
    j->signal(SIGUSR1);
    const int code = j->wait();
    CAPTURE(j->output());
    CHECK(code == 75);
    CHECK(j->count("stopped with nothing to save") == 1);
    CHECK(!j->contains("is gone"));
    CHECK(!j->contains("error:"));
  }
}

TEST_CASE("one rank that is signalled to stop in set-up stops all", "[ranks]") {
  const RanksWorkspace w;
  for (const size_t which : {0, 1})
    for (const int signal : {SIGINT, SIGTERM}) {
      Job job(in_set_up(w, "one"));
      job.wait_for("measuring");
      REQUIRE(job.ranks().size() == 2);
      ::kill(job.ranks()[which], signal);
      const int code = job.wait();
      CAPTURE(which, signal, job.output());
      CHECK(code == 75);
      CHECK(job.count("stopped with nothing to save") == 1);
      CHECK(job.contains("2 ranks: parallel plan not chosen yet"));
      CHECK(!job.contains("is gone"));
      CHECK(!job.contains("error:"));
    }
}

TEST_CASE("a signal to mpirun or to one rank stops all after a save", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const bool to_one = GENERATE(false, true);
  CAPTURE(to_one);
  const auto directory = w.run_directory("stopped");
  Job job(w.train(spec, "stopped", kLayout, steps(100000)));
  job.wait_for("step 4/");
  if (to_one) {
    REQUIRE(job.ranks().size() == 4);
    ::kill(job.ranks()[2], SIGTERM);
  } else {
    job.signal(SIGUSR1);  // mpirun hands it on
  }
  const int code = job.wait();
  CAPTURE(job.output());
  REQUIRE(code == 75);
  CHECK(job.processes().empty());
  CHECK(job.count(to_one ? "SIGTERM received: state saved" : "SIGUSR1 received: state saved") == 1);
  expect_success(fptrain({"checkpoint", "verify", directory.string()}));

  const auto last = history(directory).rbegin()->first;
  expect_success(w.train(spec, "stopped", kLayout, steps(last + 4)));
  expect_success(w.train(spec, "whole", kLayout, steps(last + 4)));
  CHECK(history(directory) == history(w.run_directory("whole")));
  expect_success(fptrain({"checkpoint", "diff", directory.string(), w.run_directory("whole").string()}));
}

TEST_CASE("a signal in set-up stops all at once", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  Job job(with_fault("rank=1,step=0,phase=set-up,kind=stop", w.train(spec, "early", kLayout, steps(4))));
  job.wait_for_stopped_rank();
  job.signal(SIGUSR1);
  job.wait_for("stopped with nothing to save");
  for (const pid_t rank : job.ranks()) ::kill(rank, SIGCONT);
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 75);
  CHECK(job.processes().empty());
  CHECK(job.count("stopped with nothing to save; unless a rank reported an error, the same command continues") == 1);
  CHECK(history(w.run_directory("early")).empty());
  expect_success(w.train(spec, "early", kLayout, steps(4)));
}

TEST_CASE("ranks that are evaluating stop together, whichever is signalled", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  std::vector<std::string> often = steps(100000);
  often.insert(often.end(), {"--set", "eval.every=1", "--set", "eval.samples=0"});
  for (const size_t which : {0, 1}) {
    Job job(w.train(spec, "rank-" + std::to_string(which), {1, 1, 2, 1}, often));
    job.wait_for("step 2/");
    REQUIRE(job.ranks().size() == 2);
    ::kill(job.ranks()[which], SIGTERM);
    const int code = job.wait();
    CAPTURE(job.output());
    CHECK(code == 75);
    CHECK(job.count("SIGTERM received: state saved") == 1);
  }
}

TEST_CASE("ranks save instead of an evaluation for which a Slurm job has too little time", "[ranks]") {
  const RanksWorkspace w;
  std::vector<std::string> often = steps(100000);
  often.insert(often.end(), {"--set", "eval.every=1"});
  std::vector<std::string> command = w.train(w.spec("llama"), "job", {1, 1, 2, 1}, often);
  const std::string end = std::to_string(std::time(nullptr) + 50);  // less than the margin
  command.insert(command.begin(), {"/usr/bin/env", "SLURM_JOB_ID=9", "SLURM_JOB_END_TIME=" + end});
  Job job(command);
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 75);
  CHECK(job.count("left of Slurm job 9") == 1);
  CHECK_THAT(slurp(w.run_directory("job") / "metrics.jsonl"), !Catch::Contains("val_loss"));
  CHECK(checkpoints(w.run_directory("job")).size() == 1);
}
