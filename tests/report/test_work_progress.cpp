#include <catch2/catch.hpp>

#include "report/work_progress.h"

using namespace fp;

TEST_CASE("the progress of work has its share and the time left") {
  CHECK(work_line("samples", 0, 9700, 3) == "0 of 9700 samples, 0 %");
  CHECK(work_line("samples", 1200, 9700, 17.7) == "1200 of 9700 samples, 12 %, 2m 05s left");
  CHECK(work_line("questions", 50, 100, 4) == "50 of 100 questions, 50 %, 4.0 s left");
  CHECK(work_line("samples", 100, 100, 4) == "100 of 100 samples, 100 %, 0.0 s left");
  CHECK(work_line("samples", 0, 0, 0) == "0 of 0 samples, 0 %");
}
