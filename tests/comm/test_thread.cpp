// Ranks as threads: the suite on worlds of several sizes, and failures.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "base/parallel.h"
#include "comm/backends.h"
#include "comm/values.h"

namespace fp::test {

void run_worlds(const Body& body, Findings& findings) {
  for (const int size : {1, 2, 3, 4, 8}) fp::run_thread_ranks(size, [&](fp::World& world) { body(world, findings); });
}

void* device_address(void* host) { return host; }

namespace {

using Catch::Matchers::Contains;

// Runs ranks of which one fails. Returns the errors of the others, which run `rest`, and the rethrown exception.
template <class Failure, class Rest>
std::vector<std::string> others_get(int size, int failing, Failure&& failure, Rest&& rest) {
  std::mutex mutex;
  std::vector<std::string> got;
  try {
    fp::run_thread_ranks(size, [&](fp::World& world) {
      if (world.rank() == failing) failure(world);
      try {
        rest(world);
      } catch (const fp::CommError& e) {
        const std::lock_guard lock(mutex);
        got.emplace_back(e.what());
        throw;
      }
    });
  } catch (const fp::DataError& e) {
    got.emplace_back(std::string("thrown: ") + e.what());
  }
  return got;
}

TEST_CASE("a rank that throws ends the others wherever they wait, and its exception is rethrown") {
  const auto waits = [](int kind) {
    return [kind](fp::World& world) {
      const auto group = everyone(world, "tensor");
      Buffer<float> x(4000, world.rank()), whole(16000);
      if (kind == 0) group->all_reduce(x.tensor());
      if (kind == 1) group->barrier();
      if (kind < 2 || world.rank() == 2) return;
      const auto pair = world.pair("tensor", {std::min(world.rank(), 2), std::max(world.rank(), 2)});
      const int failing = 1 - pair->rank();
      (kind == 2 ? pair->start_recv(x.tensor(), failing) : pair->start_send(x.tensor(), failing)).wait();
    };
  };
  for (const int kind : {0, 1, 2, 3}) {
    const auto got = others_get(
        4, 2, [](fp::World&) { throw fp::DataError("bad shard"); }, waits(kind));
    INFO(kind);
    REQUIRE(got.size() == 4);
    for (size_t i = 0; i < 3; ++i) {
      CHECK_THAT(got[i], Contains("rank 2 failed: bad shard"));
      CHECK_THAT(got[i], Contains("group tensor"));
    }
    CHECK(got[3] == "thrown: bad shard");
  }
}

TEST_CASE("after a rank throws between start and wait, no other rank accesses its memory") {
  const auto body = [](fp::World& world, bool fails) {
    const auto group = everyone(world);
    Buffer<float> x(400000, world.rank());
    fp::Request sum = group->start_all_reduce(x.tensor());
    if (fails) throw fp::DataError("bad shard");
    sum.wait();
    group->barrier();
  };
  const auto got = others_get(
      4, 1, [&](fp::World& w) { body(w, true); }, [&](fp::World& w) { body(w, false); });
  REQUIRE(got.size() == 4);
  CHECK(got[3] == "thrown: bad shard");
}

TEST_CASE("after a failure, the next call of a rank that was not waiting also fails") {
  std::atomic<bool> failed{false};
  const auto got = others_get(
      2, 0,
      [&](fp::World&) {
        failed = true;
        throw fp::DataError("bad shard");
      },
      [&](fp::World& world) {
        while (!failed) std::this_thread::yield();
        const auto group = everyone(world);
        for (;;) group->barrier();
      });
  REQUIRE(got.size() == 2);
  CHECK_THAT(got[0], Contains("rank 0 failed: bad shard"));
}

TEST_CASE("a rank that ends without taking part in a call is named") {
  CHECK_THROWS_WITH(fp::run_thread_ranks(3,
                                         [](fp::World& world) {
                                           const auto group = everyone(world);
                                           if (world.rank() != 1) group->barrier();
                                         }),
                    Contains("rank 1 ended without taking part"));
}

TEST_CASE("ranks with mismatched calls get an error") {
  const auto run = [](auto&& differ) {
    fp::run_thread_ranks(2, [&](fp::World& world) {
      const auto group = everyone(world, "data");
      Buffer<float> x(10, world.rank()), y(20);
      differ(world, *group, x, y);
    });
  };
  CHECK_THROWS_WITH(
      run([](fp::World& w, fp::Group& g, auto& x, auto&) { g.all_reduce(x.slice(0, w.rank() == 0 ? 10 : 9)); }),
      Contains("group data: all_reduce of [10] on rank 0, all_reduce of [9] on rank 1"));
  CHECK_THROWS_WITH(run([](fp::World& w, fp::Group& g, auto& x, auto& y) {
                      if (w.rank() == 0)
                        g.all_reduce(x.tensor());
                      else
                        g.all_gather(y.tensor(), x.tensor());
                    }),
                    Contains("all_gather of [10] on rank 1"));
  CHECK_THROWS_WITH(run([](fp::World& w, fp::Group&, auto& x, auto& y) {
                      const auto pair = w.pair("stages", {0, 1});
                      (w.rank() == 0 ? pair->start_send(x.tensor(), 1) : pair->start_recv(y.tensor(), 0)).wait();
                    }),
                    Contains("[10] of fp32 sent, [20] of fp32 expected"));
}

TEST_CASE("the threads of the process are divided over the ranks") {
  fp::set_threads(6);
  std::atomic<int> wrong{0};
  fp::run_thread_ranks(3, [&](fp::World&) {
    if (fp::max_threads() != 2) ++wrong;
  });
  fp::run_thread_ranks(8, [&](fp::World&) {
    if (fp::max_threads() != 1) ++wrong;
  });
  CHECK(wrong == 0);
  CHECK(fp::max_threads() == 6);
  fp::set_threads(0);
}

}  // namespace
}  // namespace fp::test
