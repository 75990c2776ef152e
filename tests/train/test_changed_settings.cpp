// What differs between a run and the checkpoint that it resumes.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "train/changed_settings.h"

using namespace fp;
using Catch::Contains;

TEST_CASE("changed settings are listed with both values, but not names of the run", "[train]") {
  RunSpec before = parse_run_spec("{}", "");
  RunSpec now = before;
  now.run.name = "other";
  now.run.directory = "runs/elsewhere";
  CHECK(changed_settings(before, now).empty());
  now.optimizer.lr = 1e-2;
  now.train.global_batch = 16;
  now.data.train = {{"books"}};
  CHECK(changed_settings(before, now) ==
        "data.train[0].path absent -> books, data.train[0].format absent -> auto, data.train[0].weight absent -> 1, "
        "optimizer.lr 0.0006 -> 0.01, train.global_batch 8 -> 16, data.train [] -> absent");
}

TEST_CASE("a learning rate that the new settings raise is reported", "[train]") {
  RunSpec before = parse_run_spec("schedule: {warmup_steps: 10}\ntrain: {steps: 100}\noptimizer: {lr: 1e-3}\n", "");
  RunSpec now = before;
  CHECK_FALSE(raised_learning_rate(before, now, 0));
  for (const int64_t step : {5, 50, 100}) CHECK_FALSE(raised_learning_rate(before, now, step));
  now.train.steps = 200;
  const auto longer = raised_learning_rate(before, now, 100);
  REQUIRE(longer);
  CHECK_THAT(*longer, Contains("the learning rate rises from 0.0001 in step 100 to 0.000") &&
                          Contains("in step 101, because the settings have changed: a longer train.steps"));
  CHECK_FALSE(raised_learning_rate(before, now, 5));  // still warming up, as before
  now = before;
  now.optimizer.lr = 1e-2;
  CHECK_THAT(raised_learning_rate(before, now, 50).value_or(""),
             Contains("because the settings have changed") && !Contains("train.steps"));
  now.optimizer.lr = 1e-4;
  CHECK_FALSE(raised_learning_rate(before, now, 50));
}

TEST_CASE("models that differ are described by their keys", "[train]") {
  ModelSection here, there;
  CHECK(model_changes(here, there).empty());
  here.hidden = 96;
  there.hidden = 64;
  here.layers = 3;
  there.layers = 2;
  CHECK(model_changes(here, there) == "model.layers: 3 here, 2 there, model.hidden: 96 here, 64 there");
}
