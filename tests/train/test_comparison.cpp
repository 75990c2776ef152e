// Prediction and measurement side by side.
#include <catch2/catch.hpp>

#include "train/comparison.h"

using namespace fp;

TEST_CASE("the end of a run reports predicted and measured values", "[train]") {
  const PredictedRun predicted{Forecast{"here", 0.1, 0, ""}, 100 << 20, 3 << 20};
  const std::string text = compare_with_prediction(predicted, {{900, 500, 104, 108, 112}, 110 << 20, 3 << 20});
  CHECK_THAT(text, Catch::Contains("step, ms (median of 3)            100.00        108.00     +8.0 %"));
  CHECK_THAT(text, Catch::Contains("peak memory, MiB                   100.0         110.0    +10.0 %"));
  CHECK_THAT(text, Catch::Contains("sent in a step, MiB                3.000         3.000     +0.0 %"));
}

TEST_CASE("unknown predictions are not compared", "[train]") {
  CHECK(compare_with_prediction({{}, 100, 0}, {{}, 100, 0}).empty());
  const std::string text = compare_with_prediction({{}, 100 << 20, 0}, {{20}, 100 << 20, 0});
  CHECK_THAT(text, !Catch::Contains("step, ms") && !Catch::Contains("not known"));
  CHECK_THAT(text, !Catch::Contains("sent"));
}
