#include <catch2/catch.hpp>

#include "io/filesystem.h"
#include "launch/ranks.h"
#include "launch/suspect.h"
#include "support/process.h"

using namespace fp;
using fp::test::TemporaryFolder;

namespace {

std::vector<RankState> four_on_two_nodes() {
  std::vector<RankState> ranks(4);
  for (int r = 0; r < 4; ++r) {
    ranks[r].rank = r;
    ranks[r].node = r < 2 ? "n1" : "n2";
  }
  return ranks;
}

}  // namespace

TEST_CASE("a node is suspect if all failed ranks run on it and others elsewhere") {
  const std::vector<RankState> ranks = four_on_two_nodes();
  CHECK(suspect_node(ranks, {3}) == "n2");
  CHECK(suspect_node(ranks, {2, 3}) == "n2");
  CHECK(suspect_node(ranks, {1, 2}).empty());
  CHECK(suspect_node(ranks, {}).empty());
  CHECK(suspect_node(std::span(ranks).first(2), {1}).empty());  // the only node
}

TEST_CASE("a node has the name that Slurm gives it") {
  CHECK(node_name([](const char* name) {
          return std::string(name) == "SLURMD_NODENAME" ? std::optional<std::string>("n7") : std::nullopt;
        }) == "n7");
  CHECK_FALSE(node_name([](const char*) { return std::optional<std::string>(); }).empty());
}

TEST_CASE("a suspect node is recorded for the batch script of the job") {
  const TemporaryFolder folder;
  note_suspect(folder.path, SlurmJob{"12", 0, {}}, "n2");
  note_suspect(folder.path, SlurmJob{"12", 1, {}}, "n3");
  note_suspect(folder.path, SlurmJob{"12", 2, {}}, "");
  note_suspect(folder.path, std::nullopt, "n4");
  CHECK(read_file(folder.path / "suspect-nodes.txt") == "12 0 n2\n12 1 n3\n");
  CHECK_NOTHROW(note_suspect(folder.path / "nowhere", SlurmJob{"12", 0, {}}, "n2"));
  std::filesystem::rename(folder.path / "suspect-nodes.txt", folder.path / "victim");
  std::filesystem::create_symlink("victim", folder.path / "suspect-nodes.txt");
  CHECK_NOTHROW(note_suspect(folder.path, SlurmJob{"12", 3, {}}, "n5"));
  CHECK(read_file(folder.path / "victim") == "12 0 n2\n12 1 n3\n");
}

TEST_CASE("a lifeline reports the nodes of a lost rank and of rank 0") {
  for (const int killed : {0, 3}) {
    CAPTURE(killed);
    const TemporaryFolder folder;
    LifelineOptions options{.heartbeat_s = 0.1, .connect_s = 30, .end = fp::test::generous_end()};
    options.suspect = [&](const std::string& node) { note_suspect(folder.path, SlurmJob{"12", 0, {}}, node); };
    const auto body = [&](fp::test::RankContext c) {
      c.clock.sleep_s(0.5);
      if (c.rank == killed) ::raise(SIGKILL);
      c.clock.sleep_for_ever();
    };
    // Each rank is on a node of its own.
    const fp::test::RanksOutcome o = fp::test::run_ranks(4, options, body, {.own_nodes = true});
    INFO(o.text);
    CHECK(read_file(folder.path / "suspect-nodes.txt") == fmt::format("12 0 n{}\n", killed));
  }
}
