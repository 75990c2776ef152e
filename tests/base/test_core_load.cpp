#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "base/core_load.h"
#include "base/parallel.h"

using namespace fp;

namespace {

CpuTimes after(double seconds, double busy_s, double own_s) {
  return {busy_s, own_s, 8,
          std::chrono::steady_clock::time_point{} +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds))};
}

}  // namespace

TEST_CASE("busy seconds are summed over the allowed cores, without idle time and waits for disks") {
  const char* stat =
      "cpu  1000 2000 3000 4000 5000 6000 7000 8000 0 0\n"
      "cpu0 100 10 20 5000 300 1 2 3 50 0\n"
      "cpu1 200 0 0 9000 0 0 0 0 0 0\n"
      "cpu10 400 0 0 9000 0 0 0 0 0 0\n"
      "intr 5\n";
  std::vector<bool> allowed(16);
  allowed[0] = true;
  CHECK(busy_times(stat, allowed, 100)->busy_s == 1.36);
  allowed[10] = true;
  CHECK(busy_times(stat, allowed, 100)->busy_s == 5.36);
  CHECK(busy_times(stat, allowed, 100)->cores == 2);
  CHECK_FALSE(busy_times(stat, std::vector<bool>(16), 100));
  CHECK_FALSE(busy_times("nothing\ncpu\ncpux 1\n", std::vector<bool>(16, true), 100));
}

TEST_CASE("a core counts as free when other programs use less than 0.4 of it") {
  const CpuTimes before = after(10, 50, 20);
  const auto others = [&](double cores) { return after(12, 50 + 2 * (3 + cores), 20 + 2 * 3); };
  CHECK(free_cores(8, before, others(0)) == 8);
  CHECK(free_cores(8, before, others(0.3)) == 8);
  CHECK(free_cores(8, before, others(0.5)) == 7);
  CHECK(free_cores(8, before, others(1.0)) == 7);
  CHECK(free_cores(8, before, others(4.6)) == 3);
  CHECK(free_cores(8, before, others(30)) == 1);
  CHECK(free_cores(8, before, others(-0.5)) == 8);
  CHECK(free_cores(8, before, before) == 8);
}

TEST_CASE("the load is measured over windows and kept between them") {
  const auto now = std::chrono::steady_clock::now();
  std::vector<CpuTimes> readings{{0, 0, 4, now}, {10, 0, 4, now + std::chrono::seconds(10)}};
  size_t next = 0;
  CoreLoad load(4, [&]() -> std::optional<CpuTimes> { return readings[next++]; });
  CHECK(load.update(1e6) == 4);
  CHECK(next == 1);
  CHECK(load.update(0) == 3);
  CHECK(next == 2);
  CoreLoad unknown(4, [] { return std::optional<CpuTimes>{}; });
  CHECK(unknown.update(0) == 4);
}

TEST_CASE("other programs take cores only where none is free") {
  CHECK(cores_taken(2.0, 1.0, 2, 2) == Approx(1.0));
  CHECK(cores_taken(2.0, 1.9, 2, 2) == 0);   // too little to matter
  CHECK(cores_taken(9.0, 2.0, 2, 16) == 0);  // on other cores
  CHECK(cores_taken(16.0, 1.5, 2, 16) == Approx(0.5));
}

TEST_CASE("a fixed number of threads does not follow the load") {
  set_threads(3);
  CHECK(follow_load(0) == 0);
  CHECK(max_threads() == 3);
  set_threads_by_load();
  const int all = max_threads();
  follow_load(0);
  CHECK(max_threads() >= 1);
  CHECK(max_threads() <= all);
  set_threads(0);
  CHECK(max_threads() == all);
}
