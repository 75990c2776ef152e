#include <catch2/catch.hpp>

#include "base/error.h"
#include "pipeline/text.h"
#include "sharding/pipeline_plan.h"
#include "support/temporary_folder.h"

using namespace fp;

TEST_CASE("a schedule file that is missing or malformed is a mistake of the configuration", "[sharding]") {
  const test::TemporaryFolder folder;
  PipelineSection section;
  section.ranks = 2;
  section.schedule_file = (folder / "mine.csv").string();
  CHECK_THROWS_AS(place_stages(section), ConfigError);
  CHECK_THROWS_WITH(place_stages(section), Catch::StartsWith("parallel.pipeline.schedule_file: ") &&
                                               Catch::Contains("mine.csv: cannot open: No such file"));
  test::write_text(section.schedule_file, "0F0,0Q0\n");
  CHECK_THROWS_AS(place_stages(section), ConfigError);
  CHECK_THROWS_WITH(place_stages(section), Catch::StartsWith("parallel.pipeline.schedule_file: ") &&
                                               Catch::Contains("mine.csv:1: cell 2, '0Q0': is no action"));
}

TEST_CASE("an invalid schedule file is refused with its errors", "[sharding]") {
  PipelinePlan plan;
  plan.from_file = schedule_from_csv("0F0,0B0\n1F0,1B0\n", "mine.csv");
  CHECK(plan.step(1).ranks.size() == 2);
  CHECK_THROWS_WITH(plan.step(2), Catch::Contains("mine.csv is for 1 micro-batches, but a step has 2"));
  plan.from_file = schedule_from_csv("0F0,0B0\n1B0,1F0\n", "mine.csv");
  CHECK_THROWS_AS(plan.step(1), ConfigError);
  CHECK_THROWS_WITH(plan.step(1), Catch::Contains("rank 1, action 0 (1B0): expected after action 1"));
  // Each rank waits for an action that the other runs later.
  plan.from_file = schedule_from_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "mine.csv");
  CHECK_THROWS_AS(plan.step(2), ConfigError);
  CHECK_THROWS_WITH(plan.step(2), Catch::Contains("waits for ever for 1B0 of rank 1"));
}
