// fptrain schedule on the command line.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

namespace {

Outcome schedule(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "schedule");
  return run(fptrain(arguments));
}

std::vector<std::string> of(const std::string& kind, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"--kind", kind, "--stages", "4", "--microbatches", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("schedule prints its costs and draws a picture", "[cli]") {
  const Outcome text = schedule(of("bitpipe", {"--w-pass", "--timeline"}));
  CAPTURE(text.output);
  CHECK(text.code == 0);
  CHECK_THAT(text.output, Contains("bitpipe + W pass, 4 ranks, 2 chunks each, 8 micro-batches") && Contains(" 49 ") &&
                              Contains("2.0 %") && Contains("8 8 8 8") && Contains("copies of the model"));
  CHECK_THAT(text.output, Contains("\n  3  F'0a F'1a .    F0a"));
  CHECK_THAT(text.output, Contains("F forward, B gradient of the input, W gradient of the weights"));

  const TemporaryFolder folder;
  const std::string picture = (folder.path / "zb.svg").string(), page = (folder.path / "zb.txt").string();
  const Outcome drawn = schedule(of("zb-v", {"--svg", picture, "--out", page}));
  CHECK(drawn.code == 0);
  CHECK(drawn.output == "");
  CHECK_THAT(slurp(picture), Contains("<svg ") && Contains("zb-v, 4 ranks"));
  CHECK_THAT(slurp(page), Contains("5.9 %"));
}

TEST_CASE("schedule --json has the numbers", "[cli]") {
  const Outcome o = schedule(of("interleaved", {"--json", "--costs", "1,1,1,0.2"}));
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const auto json = nlohmann::json::parse(o.output);
  CHECK(json.at("kind") == "interleaved");
  CHECK(json.at("stages") == 4);
  CHECK(json.at("microbatches") == 8);
  CHECK(json.at("chunks") == 2);
  CHECK(json.at("makespan").get<double>() == Approx(59.8));
  CHECK(json.at("work") == 48);
  CHECK(json.at("bubble").get<double>() == Approx(1 - 48 / 59.8));
  CHECK(json.at("span_bubble").get<double>() == Approx(1 - 48 / 59.8));
  CHECK(json.at("peak_chunks") == std::vector<int>{11, 9, 7, 5});
  CHECK(json.at("messages_per_microbatch") == 14);
}

TEST_CASE("schedule reads its own CSV and verifies it", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "chimera.csv").string();
  REQUIRE(schedule(of("chimera", {"--w-pass", "--csv", "--out", file})).code == 0);
  const Outcome o = schedule({"--file", file, "--json"});
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
  const auto json = nlohmann::json::parse(o.output);
  CHECK(json.at("makespan") == 25);
  CHECK(json.at("pipes") == 2);
  CHECK(run(fptrain({"schedule", "--file", file, "--csv"})).output == slurp(file));

  std::string cells = slurp(file);
  const size_t at = cells.find("u:0F0");
  REQUIRE(at != std::string::npos);
  std::ofstream(file) << cells.replace(at, 5, "u:0F1");
  const Outcome wrong = schedule({"--file", file});
  CHECK(wrong.code == 3);
  CHECK_THAT(wrong.output, Contains("invalid schedule") && Contains("u:0F1"));
  CHECK(schedule({"--file", (folder.path / "none.csv").string()}).code == 3);

  // A schedule of two ranks with explicit messages and reductions.
  std::ofstream(file) << "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n";
  const Outcome lowered = schedule({"--file", file, "--json", "--costs", "1,1,1,0.5"});
  CAPTURE(lowered.output);
  REQUIRE(lowered.code == 0);
  CHECK(nlohmann::json::parse(lowered.output).at("makespan") == 7);
}

TEST_CASE("schedule refuses impossible requests and names legal ones", "[cli]") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& legal) {
    const Outcome o = schedule(arguments);
    CAPTURE(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Contains(legal));
  };
  refused({}, "give --kind, --stages and --microbatches, or --file");
  refused(of("2f2b"), "use gpipe, 1f1b, interleaved, bfs");
  refused({"--kind", "chimera", "--stages", "4", "--microbatches", "6"}, "use a multiple of 4: 4, 8, 12, ...");
  refused(of("interleaved", {"--w-pass", "--memory-cap", "9"}), "smallest that works: 11");
  refused(of("1f1b", {"--costs", "1,1,1"}), "--costs");
  refused(of("1f1b", {"--costs", "1,1,-1,0"}), "use four times of a chunk, not negative");
  refused(of("1f1b", {"--costs", "1e308,1e308,1e308,1"}), "at most 1e12");
  refused(of("1f1b", {"--json", "--csv"}), "excludes");
  refused(of("1f1b", {"--file", "x.csv"}), "excludes");
}
