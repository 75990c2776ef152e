#include <catch2/catch.hpp>

#include "base/filesystem.h"
#include "launch/ranks.h"
#include "launch/suspect.h"
#include "support/process.h"

using namespace fp;
using fp::testing::TemporaryFolder;

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

TEST_CASE("a node stands out when it has all ranks that do, and others are elsewhere") {
  const std::vector<RankState> ranks = four_on_two_nodes();
  CHECK(suspect_node(ranks, {3}) == "n2");
  CHECK(suspect_node(ranks, {2, 3}) == "n2");
  CHECK(suspect_node(ranks, {1, 2}).empty());
  CHECK(suspect_node(ranks, {}).empty());
  CHECK(suspect_node(std::span(ranks).first(2), {1}).empty());  // the only node
}

TEST_CASE("a node is called what Slurm calls it") {
  CHECK(node_name([](const char* name) {
          return std::string(name) == "SLURMD_NODENAME" ? std::optional<std::string>("n7") : std::nullopt;
        }) == "n7");
  CHECK_FALSE(node_name([](const char*) { return std::optional<std::string>(); }).empty());
}

TEST_CASE("a node that stood out is noted for the batch script of the job") {
  const TemporaryFolder folder;
  note_suspect(folder.path, SlurmJob{"12", 0, {}}, "n2");
  note_suspect(folder.path, SlurmJob{"12", 1, {}}, "n3");
  note_suspect(folder.path, SlurmJob{"12", 2, {}}, "");
  note_suspect(folder.path, std::nullopt, "n4");
  CHECK(read_file(folder.path / "suspect-nodes.txt") == "12 0 n2\n12 1 n3\n");
  CHECK_NOTHROW(note_suspect(folder.path / "nowhere", SlurmJob{"12", 0, {}}, "n2"));
}

TEST_CASE("a lifeline tells of the node whose rank is gone, rank 0's too") {
  for (const int killed : {0, 3}) {
    CAPTURE(killed);
    const TemporaryFolder folder;
    LifelineOptions options{.heartbeat_s = 0.1, .connect_s = 30, .end = fp_test::generous_end()};
    options.suspect = [&](const std::string& node) { note_suspect(folder.path, SlurmJob{"12", 0, {}}, node); };
    const auto body = [&](fp_test::RankContext c) {
      c.clock.sleep_s(0.5);
      if (c.rank == killed) ::raise(SIGKILL);
      c.clock.sleep_for_ever();
    };
    // Each rank is a node of its own.
    const fp_test::Outcome o = fp_test::run_ranks(4, options, body, {.own_nodes = true});
    INFO(o.text);
    CHECK(read_file(folder.path / "suspect-nodes.txt") == fmt::format("12 0 n{}\n", killed));
  }
}
