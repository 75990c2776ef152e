#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "launch/deadline.h"
#include "launch/ranks.h"

using namespace fp;
using namespace fp::test;

namespace {

// Runs a process that works for `works` seconds under a deadline of `limit`, and returns how it ends.
RanksOutcome process_with(double limit, double works) {
  return run_processes(1, [=](int process, DrivenTime& time) {
    DrivenClock clock(time, process);
    {
      const Deadline deadline(limit, "too late", clock, generous_end());
      clock.sleep_s(works);
    }
    ::_exit(7);
  });
}

}  // namespace

TEST_CASE("a deadline ends a process that misses it and no other") {
  const RanksOutcome late = process_with(20, 20.1);
  CHECK(late.codes == all(1, 76));
  CHECK(late.says("too late"));
  CHECK(process_with(20, 19.9).codes == all(1, 7));
  CHECK(process_with(0, 1e6).codes == all(1, 7));
}

TEST_CASE("a deadline ends a process whose log and standard streams are held and still prints its message") {
  const RanksOutcome o = run_processes(1, [](int process, DrivenTime& time) {
    DrivenClock clock(time, process);
    EndLimits hasty = generous_end();
    hasty.log_s = hasty.flush_s = 0.1;
    const Deadline deadline(20, "too late", clock, hasty);
    ::flockfile(stderr);  // as a writer to a full pipe does, which also blocks the log
    ::flockfile(stdout);
    clock.sleep_for_ever();
  });
  INFO(o.text);
  CHECK(o.codes == all(1, 76));
  CHECK(o.count("error: too late") == 1);
}

TEST_CASE("a deadline ends a process whose standard error is a full pipe") {
  const RanksOutcome o = run_processes(1, [](int process, DrivenTime& time) {
    DrivenClock clock(time, process);
    EndLimits hasty = generous_end();
    hasty.log_s = hasty.flush_s = 0.1;
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) ::_exit(9);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const std::string much(4096, 'x');
    while (::write(ends[1], much.data(), much.size()) > 0) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
    ::dup2(ends[1], STDERR_FILENO);
    const Deadline deadline(20, "too late", clock, hasty);
    clock.sleep_for_ever();
  });
  CHECK(o.codes == all(1, 76));
}
