#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "base/work_queue.h"
#include "support/gate.h"

using namespace fp;
using fp::test::Gate;

namespace {

constexpr double kForEver = 3600;

}  // namespace

TEST_CASE("a work queue does all work in order and flush waits for it") {
  std::vector<int> done;  // written by the queue's thread until flush() returns
  WorkQueue queue(1000);
  for (int i = 0; i < 100; ++i) CHECK(queue.post([&done, i] { done.push_back(i); }));
  REQUIRE(queue.flush(kForEver));
  REQUIRE(done.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(done[i] == i);
  CHECK(queue.busy_s() == 0);
}

TEST_CASE("a work queue whose work hangs blocks nobody and refuses work beyond its limit") {
  const auto gate = std::make_shared<Gate>();
  const auto done = std::make_shared<std::atomic<int>>(0);
  WorkQueue queue(3);
  REQUIRE(queue.post([gate] { gate->pass(); }));
  gate->await();
  CHECK(queue.busy_s() > 0);
  for (int i = 0; i < 3; ++i) CHECK(queue.post([done] { ++*done; }));
  CHECK_FALSE(queue.post([done] { ++*done; }));
  CHECK_FALSE(queue.flush(0));
  CHECK(*done == 0);
  gate->open();
  REQUIRE(queue.flush(kForEver));
  CHECK(*done == 3);
  CHECK(queue.post([done] { ++*done; }));
}
