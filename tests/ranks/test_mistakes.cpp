// User errors under mpirun: one message, exit code 2 (or 3 for data), nothing left behind.
#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::test;

namespace {

void expect_user_error(int ranks, const std::vector<std::string>& arguments, int code, const std::string& message) {
  Job job(mpirun(ranks, arguments));
  const int ended = job.wait();
  CAPTURE(arguments, job.output());
  CHECK(ended == code);
  CHECK(job.count(message) == 1);
  CHECK(job.processes().empty());
}

}  // namespace

TEST_CASE("a user error in a run of several ranks is reported once", "[ranks]") {
  const RanksWorkspace w;
  const std::string spec = w.spec("llama").string();
  struct Case {
    int ranks, code;
    std::vector<std::string> sets;
    std::string message;
  };
  const std::vector<Case> cases = {
      {8, 2, {"parallel.tensr=2"}, "unknown key 'parallel.tensr'"},
      {4, 2, {"parallel.data=2"}, "data 2 x sequence 1 x tensor 1 = 2, but this run has 4 ranks"},
      {4, 2, {"parallel.data=4", "train.global_batch=6"}, "train.global_batch = 6 must be a multiple of"},
      {4, 2, {"parallel.data=0", "train.global_batch=6"}, "train.global_batch = 6 must be a multiple of"},
      {8, 2, {"parallel.tensor=8", "model.heads=4"}, "parallel.tensor = 8 is more than model.heads = 4"},
      {8, 2, {"parallel.sequence=8", "model.heads=4"}, "parallel.sequence = 8 is more than the 4 attention heads"},
      {4, 2, {"parallel.data=4", "data.train=[{path: /nowhere}]"}, "there is no dataset '/nowhere'"},
      {4,
       3,
       {"parallel.data=4", "model.init_from=/nowhere"},
       "phase set-up): model.init_from: /nowhere: no such folder"},
      {4, 2, {"parallel.data=4", "run.directory=" + spec + "/run"}, "cannot create the run directory: " + spec},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments{"train", spec, "--set", "run.directory=" + w.run_directory("mistaken").string()};
    for (const std::string& set : c.sets) arguments.insert(arguments.end(), {"--set", set});
    expect_user_error(c.ranks, arguments, c.code, c.message);
  }
  expect_user_error(8, {"train", spec, "--steps", "9"}, 2, "Run with --help for more information.");
}

TEST_CASE("commands for one rank refuse several ranks with one message", "[ranks]") {
  const RanksWorkspace w;
  const std::string spec = w.spec("llama").string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"eval", spec, "--checkpoint", "any"},
        {"generate", "--checkpoint", spec, "--prompt", "any"},
        {"probe", "--checkpoint", spec, "--batch", "any"},
        {"data", "prepare", "--out", (w.root() / "more").string(), (w.root() / "text.txt").string()}})
    expect_user_error(2, arguments, 2, "fptrain " + arguments[0] + " runs on one rank, not on 2");
  expect_user_error(2, {"bench", "train", spec}, 2, "fptrain bench train runs on one rank, not on 2");
  expect_user_error(2, {"bench", "ops"}, 2, "fptrain bench ops runs on one rank, not on 2");
  expect_user_error(2, {"bench", "schedule", "--stages", "4"}, 2, "--stages 4 on 2 ranks");
}
