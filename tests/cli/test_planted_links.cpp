// Symbolic links that others have placed in a run directory.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("a run never writes through a link in its directory", "[cli]") {
  const Workspace w;
  const fs::path spec = w.spec("gpt", "fp32"), directory = w.run_directory("r"), victim = w.root() / "victim";
  fs::create_directories(directory);
  std::ofstream(victim) << "theirs";
  for (const char* name : {"config.yaml", "plan.txt", "report.html", "report.json", "log.txt"})
    fs::create_symlink(victim, directory / name);
  const Outcome o = run(w.train(spec, "r",
                                {"--set", "train.steps=4", "--set", "checkpoint.every=2", "--set", "eval.every=0",
                                 "--set", "logging.report=true"}));
  CAPTURE(o.output);
  CHECK(o.code == 0);
  CHECK_THAT(o.output, Contains("log.txt: is a symbolic link"));
  CHECK(slurp(victim) == "theirs");

  fs::create_directories(w.run_directory("s"));
  fs::create_symlink(victim, w.run_directory("s") / "metrics.jsonl");
  std::ofstream(victim).close();  // invalid metrics would be set aside
  const Outcome refused = run(w.train(spec, "s", {"--set", "train.steps=4"}));
  CAPTURE(refused.output);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.output, Contains("metrics.jsonl: is a symbolic link"));
  CHECK(slurp(victim).empty());
}
