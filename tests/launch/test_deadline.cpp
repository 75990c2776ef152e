#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "launch/deadline.h"

using namespace fp;

namespace {

// How a process ends that works for `works` seconds under a deadline of `limit`, and how long that takes.
std::pair<int, double> process_with(double limit, double works) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    {
      const Deadline deadline(limit, "too late");
      std::this_thread::sleep_for(std::chrono::duration<double>(works));
    }
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return {WEXITSTATUS(status), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace

TEST_CASE("a deadline ends who misses it, and nobody else") {
  const auto [late, seconds] = process_with(0.2, 30);
  CHECK(late == 1);
  CHECK(seconds < 10);
  CHECK(process_with(30, 0.01).first == 7);
  CHECK(process_with(0, 0.3).first == 7);
}
