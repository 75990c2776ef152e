// Options that a command would not use are refused, and what a command says about those it uses.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::testing;
using Catch::Contains;

TEST_CASE("eval refuses the options of its other mode", "[cli]") {
  const auto refused = [](std::vector<std::string> arguments, const std::string& option, const std::string& other) {
    arguments.insert(arguments.begin(), {"eval", "--checkpoint", "none"});
    const Outcome o = run(fptrain(arguments));
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(option) && Contains(other));
  };
  const std::string choices = "--multiple-choice";
  refused({choices, "q.bin", "--samples", "1"}, "--samples", "run");
  refused({choices, "q.bin", "--set", "train.steps=1"}, "--set", "run");
  refused({"run.yaml", choices, "q.bin"}, choices, "run");
  refused({"run.yaml", "--device", "ref"}, "--device", choices);
  refused({"run.yaml", "--rows", "4"}, "--rows", choices);
}
