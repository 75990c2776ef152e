#include <catch2/catch.hpp>

#include "base/cpu_times.h"

using namespace fp;

TEST_CASE("busy seconds are summed over the cores, without idle time and waits for disks") {
  const char* stat =
      "cpu  1000 2000 3000 4000 5000 6000 7000 8000 0 0\n"
      "cpu0 100 10 20 5000 300 1 2 3 50 0\n"
      "cpu1 200 0 0 9000 0 0 0 0 0 0\n"
      "cpu10 400 0 0 9000 0 0 0 0 0 0\n"
      "intr 5\n";
  CHECK(busy_times(stat, 100)->busy_s == 7.36);
  CHECK(busy_times(stat, 100)->cores == 3);
  CHECK_FALSE(busy_times("nothing\ncpu\ncpux 1\n", 100));
}

TEST_CASE("other programs take cores only where none is free") {
  CHECK(cores_taken(2.0, 1.0, 2, 2) == Approx(1.0));
  CHECK(cores_taken(2.0, 1.9, 2, 2) == 0);   // too little to matter
  CHECK(cores_taken(9.0, 2.0, 2, 16) == 0);  // on other cores
  CHECK(cores_taken(16.0, 1.5, 2, 16) == Approx(0.5));
}
