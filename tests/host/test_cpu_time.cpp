#include <catch2/catch.hpp>

#include "host/cpu_time.h"

using namespace fp;

TEST_CASE("the CPU time of all programs is read from /proc/stat") {
  const auto t = parse_cpu_time(
      "cpu  100 20 30 5000 7 3 2 45 0 0\ncpu0 50 10 15 2500 3 1 1 20 0 0\ncpu1 50 10 15 2500 4 2 1 25 0 0\nintr 1 2\n",
      100);
  REQUIRE(t);
  CHECK(t->busy_s == Approx(2.0));  // all but idle and iowait
  CHECK(t->cores == 2);
  CHECK_FALSE(parse_cpu_time("", 100));
  CHECK_FALSE(parse_cpu_time("cpu 1 2 3\n", 100));
  CHECK_FALSE(parse_cpu_time("cpu  100 20 30 5000 7 3 2 45\n", 100));  // no core
}

TEST_CASE("others take cores only where none is free") {
  CHECK(cores_taken(2.0, 1.0, 2, 2) == Approx(1.0));
  CHECK(cores_taken(2.0, 1.9, 2, 2) == 0);   // too little to matter
  CHECK(cores_taken(9.0, 2.0, 2, 16) == 0);  // on other cores
  CHECK(cores_taken(16.0, 1.5, 2, 16) == Approx(0.5));
  CHECK(own_cpu_seconds() > 0);
}
