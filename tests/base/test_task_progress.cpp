#include <catch2/catch.hpp>

#include "base/task_progress.h"

using namespace fp;

TEST_CASE("a line of progress has the share that is done, the rate and the time left") {
  CHECK(progress_line("evaluating", 1200, 9700, "samples", 1, 17.7) == "evaluating: 12%, 67.8 samples/s, 2m 05s left");
  CHECK(progress_line("tokenizing", 50'000'000, 100'000'000, "MB", 1e6, 4) == "tokenizing: 50%, 12.5 MB/s, 4.0 s left");
  CHECK(progress_line("evaluating", 100, 100, "samples", 1, 4) == "evaluating: 100%, 25.0 samples/s, 0.0 s left");
  CHECK(progress_line("evaluating", 0, 0, "samples", 1, 0) == "evaluating: 0%, 0.0 samples/s, 0.0 s left");
}
