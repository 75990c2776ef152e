// fptrain bench schedule on the ranks of mpirun.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ranks/job.h"

using namespace fp::testing;

TEST_CASE("bench schedule uses the ranks it is started on, and one of them reports", "[ranks]") {
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
