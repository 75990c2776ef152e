#include <unistd.h>

#include <catch2/catch.hpp>

#include "launch/deadline.h"
#include "launch/ranks.h"

using namespace fp;
using namespace fp_test;

namespace {

// How a process ends that works for `works` seconds under a deadline of `limit`.
Outcome process_with(double limit, double works) {
  return run_processes(1, [=](int process, DrivenTime& time) {
    DrivenClock clock(time, process);
    {
      const Deadline deadline(limit, "too late", clock);
      clock.sleep_s(works);
    }
    ::_exit(7);
  });
}

}  // namespace

TEST_CASE("a deadline ends who misses it, and nobody else") {
  const Outcome late = process_with(20, 20.1);
  CHECK(late.codes == all(1, 1));
  CHECK(late.says("too late"));
  CHECK(process_with(20, 19.9).codes == all(1, 7));
  CHECK(process_with(0, 1e6).codes == all(1, 7));
}
