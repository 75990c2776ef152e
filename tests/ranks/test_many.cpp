// More ranks than can communicate under the usual limit of open files.
#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::test;

TEST_CASE("24 ranks with an initial limit of 36 open files train, save and resume over TCP", "[ranks][slow]") {
  const RanksWorkspace w;
  const auto train = [&](int steps) {
    std::vector<std::string> command =
        w.train(w.spec("llama"), "many", {.data = 24},
                {"--set", "train.global_batch=24", "--set", "checkpoint.every=2", "--set", "eval.every=0", "--set",
                 fmt::format("train.steps={}", steps)});
    const auto program = std::find(command.begin(), command.end(), FP_EXECUTABLE);
    command.insert(program, {"/bin/sh", "-c", "ulimit -S -n 36; exec \"$@\"", "sh"});
    const auto ranks = std::find(command.begin(), command.end(), "-np");
    command.insert(ranks, {"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"});
    return command;
  };
  expect_success(train(3));
  CHECK(checkpoints(w.run_directory("many")).back() == "step-00000003");
  expect_success(train(5));
  CHECK(checkpoints(w.run_directory("many")).back() == "step-00000005");
  CHECK(history(w.run_directory("many")).size() == 5);
}
