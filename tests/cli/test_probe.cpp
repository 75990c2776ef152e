// fptrain probe: errors in the batch or the output file are reported, and never destroy an existing file.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

TEST_CASE("probe refuses invalid token ids and replaces the old file atomically", "[cli]") {
  const Workspace w;
  REQUIRE(run(w.train(w.spec("llama", "fp32"), "r", {"--set", "train.steps=4", "--set", "eval.every=0"})).code == 0);
  const auto out = w.root() / "out";
  std::filesystem::create_directory(out);
  const auto probe = [&](const std::string& batch, const std::filesystem::path& file,
                         const std::vector<std::string>& flags = {}) {
    std::ofstream(w.root() / "batch.json") << batch;
    std::vector<std::string> command = {
        "probe", "--checkpoint", w.run_directory("r").string(), "--batch", (w.root() / "batch.json").string(),
        "--out", file.string()};
    command.insert(command.end(), flags.begin(), flags.end());
    return run(fptrain(command));
  };
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(out), {}); };
  const auto old = out / "probe.h5";
  std::ofstream(old) << "old";

  for (const auto& [id, place] : {std::pair<std::string, std::string>{"1.9", "tokens[1][0] is 1.9"},
                                  {"4294967298", "tokens[1][0] is 4294967298"},
                                  {"-2147483649", "tokens[1][0] is -2147483649"},
                                  {"18446744073709551615", "tokens[1][0] is 18446744073709551615"},
                                  {"true", "tokens[1][0] is true"}}) {
    const Outcome o = probe(R"({"tokens": [[1, 2], [)" + id + ", 3]]}", old);
    CAPTURE(o.output);
    CHECK(o.code == 3);
    CHECK_THAT(o.output, Contains(place));
  }
  CHECK(probe(R"({"tokens": [1]})", old).code == 3);
  CHECK_THAT(probe(R"({"tokens": [[1, 2]], "targets": [[1, "x"]]})", old).output, Contains("targets[0][1]"));
  CHECK(probe(R"({"tokens": [[1, 1000000]]})", old).code == 2);
  const Outcome folder = probe(R"({"tokens": [[1, 2]]})", out);
  CHECK(folder.code == 2);
  CHECK_THAT(folder.output, Contains("is not a regular file"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--update", "--lr", "-1"}, {"--lr", "1e-3"}, {"--dpo-label-smoothing", "2"}})
    CHECK(probe(R"({"tokens": [[1, 2]]})", old, flags).code == 2);
  CHECK(slurp(old) == "old");
  CHECK(files() == 1);

  CHECK(probe(R"({"tokens": [[1, 2]]})", old).code == 0);
  CHECK(slurp(old).starts_with("\x89HDF"));
  CHECK(files() == 1);
  CHECK(probe(R"({"tokens": [[1, 2]]})", w.root() / "nowhere" / "probe.h5").code == 3);
}
