// fptrain bench on the ranks of mpirun.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "config/cluster/cluster.h"
#include "ranks/job.h"

using namespace fp::test;

TEST_CASE("bench schedule runs on the started ranks, and one of them reports", "[ranks]") {
  const RanksWorkspace w;  // sets up mpirun
  Job job(mpirun(4, {"bench", "schedule", "--kind", "1f1b", "--kind", "bitpipe", "--unit-ms", "1", "--json"}));
  const int code = job.wait();
  CAPTURE(job.output());
  REQUIRE(code == 0);
  REQUIRE(job.count("ranks_are") == 1);
  const std::string text = job.output();
  const nlohmann::json report = nlohmann::json::parse(text.substr(text.find("{\"")));
  CHECK(report.at("ranks_are") == "processes");
  REQUIRE(report.at("schedules").size() == 2);
  for (const auto& row : report.at("schedules")) {
    CHECK(row.at("ranks") == 4);
    CHECK(row.at("executed_units") >= 48.0);
  }
  CHECK(job.processes().empty());
}

TEST_CASE("bench all on several ranks writes the profile and links for that number", "[ranks]") {
  const RanksWorkspace w;
  const std::string file = (w.root() / "cluster.yaml").string();
  Job job(mpirun(
      2, {"bench", "all", "--quick", "--device", "cpu", "--directory", w.root().string(), "--write-cluster", file}));
  const int code = job.wait();
  CAPTURE(job.output());
  REQUIRE(code == 0);
  CHECK(job.count("# written") == 1);
  const fp::ClusterSpec c = fp::load_cluster(file);
  REQUIRE(c.profiles.size() == 1);
  CHECK(c.nodes == 1);
  CHECK(c.profiles[0].ranks == 2);
  CHECK(c.profiles[0].links.size() == 7);
  for (const fp::LinkRates& l : c.profiles[0].links) CHECK(l.between == "ranks");
}

TEST_CASE("bench comm times each collective among the ranks", "[ranks]") {
  const RanksWorkspace w;
  Job job(mpirun(2, {"bench", "comm", "--quick", "--device", "cpu", "--json"}));
  const int code = job.wait();
  CAPTURE(job.output());
  REQUIRE(code == 0);
  const std::string text = job.output();
  const nlohmann::json report = nlohmann::json::parse(text.substr(text.find("{\"")));
  CHECK(report.at("links").size() == 6 * 2 + 3);
  for (const auto& row : report.at("links")) {
    CAPTURE(row.dump());
    CHECK(row.at("us") > 0.0);
    CHECK(row.at("sent") > 0);
  }
}
