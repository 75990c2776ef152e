#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace {

// Sets the number of threads for a scope.
struct Threads {
  explicit Threads(int n) { fp::set_threads(n); }
  ~Threads() { fp::set_threads(0); }
};

}  // namespace

TEST_CASE("parallel runs the body once on each thread") {
  for (const int threads : {1, 2, 3}) {
    const Threads scope(threads);
    CHECK(fp::max_threads() == threads);
    std::vector<std::atomic<int>> calls(static_cast<size_t>(threads));
    std::atomic<int> wrong_size{0};
    fp::parallel([&](int thread, int size) {
      ++calls[static_cast<size_t>(thread)];
      if (size != threads) ++wrong_size;
    });
    for (const auto& c : calls) CHECK(c == 1);
    CHECK(wrong_size == 0);
  }
}

TEST_CASE("by default there are no more threads than the control group grants cores") {
  const int cores = fp::available_cores();
  fp::set_core_quota(1);
  CHECK(fp::available_cores() == 1);
  std::thread([] { CHECK(fp::max_threads() == 1); }).join();
  fp::set_core_quota(cores + 1);
  CHECK(fp::available_cores() == cores);
  fp::set_core_quota(0);
  CHECK(fp::available_cores() == cores);
}

TEST_CASE("parallel_for visits every index once, cut at multiples of the grain") {
  for (const int threads : {1, 2, 3})
    for (const int64_t grain : {1, 4, 7, 64})
      for (const int64_t n : {0, 1, 3, 4, 5, 63, 64, 65, 1000}) {
        INFO(threads << " threads, grain " << grain << ", n " << n);
        const Threads scope(threads);
        std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
        std::atomic<int> bad_cuts{0};
        fp::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          if (begin % grain != 0 || (end % grain != 0 && end != n) || begin >= end) ++bad_cuts;
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        CHECK(bad_cuts == 0);
        for (const auto& v : visits)
          if (v != 1) FAIL("an index was visited " << v << " times");
      }
}

TEST_CASE("nested parallel regions run on one thread") {
  const Threads scope(2);
  std::atomic<int> inner_calls{0}, inner_threads{0};
  fp::parallel([&](int, int) {
    if (fp::max_threads() != 1) inner_threads = fp::max_threads();
    fp::parallel([&](int, int size) {
      ++inner_calls;
      if (size != 1) inner_threads = size;
    });
  });
  CHECK(inner_calls == 2);
  CHECK(inner_threads == 0);
}

TEST_CASE("set_threads(0) restores the default number of threads") {
  fp::set_threads(0);
  const int usual = fp::max_threads();
  CHECK(usual >= 1);
  fp::set_threads(usual + 1);
  CHECK(fp::max_threads() == usual + 1);
  fp::set_threads(0);
  CHECK(fp::max_threads() == usual);
}

TEST_CASE("the number of threads is a setting of each thread") {
  const Threads scope(3);
  int there = 0, started = 0;
  std::thread other([&] {
    fp::set_threads(2);
    there = fp::max_threads();
    fp::parallel([&](int thread, int size) {
      if (thread == 0) started = size;
    });
  });
  other.join();
  CHECK(there == 2);
  CHECK(started == 2);
  CHECK(fp::max_threads() == 3);
}

TEST_CASE("parallel_each calls the body once for each piece") {
  for (const int threads : {1, 2, 3, 7})
    for (const int64_t n : {0, 1, 2, 6, 7, 1000}) {
      INFO(threads << " threads, " << n << " pieces");
      const Threads scope(threads);
      std::vector<std::atomic<int>> calls(static_cast<size_t>(n));
      std::atomic<int> bad_threads{0};
      fp::parallel_each(n, [&](int64_t piece, int thread) {
        ++calls[static_cast<size_t>(piece)];
        if (thread < 0 || thread >= threads) ++bad_threads;
      });
      CHECK(bad_threads == 0);
      for (const auto& c : calls)
        if (c != 1) FAIL("a piece was run " << c << " times");
    }
}

TEST_CASE("many short loops in a row each run all of their pieces") {
  const Threads scope(3);
  int64_t wrong = 0;
  for (int loop = 0; loop < 20'000; ++loop) {
    std::atomic<int64_t> sum{0};
    const int64_t n = 1 + loop % 9;
    fp::parallel_each(n, [&](int64_t piece, int) { sum += piece + loop; });
    if (sum != n * (n - 1) / 2 + n * loop) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("pieces of a thread that is held up are run by the others") {
  const Threads scope(2);
  std::atomic<int> done{0};
  fp::parallel_each(64, [&](int64_t piece, int) {
    // The first piece waits for all others, half of which belong to the share of the thread that runs it.
    if (piece == 0)
      while (done < 63) std::this_thread::yield();
    ++done;
  });
  CHECK(done == 64);
}

TEST_CASE("a team made by one thread is not used by another") {
  const Threads scope(2);
  std::atomic<int> done{0};
  const auto loops = [&] {
    fp::set_threads(3);
    for (int i = 0; i < 500; ++i) fp::parallel_each(8, [&](int64_t, int) { ++done; });
  };
  std::thread first(loops), second(loops);
  for (int i = 0; i < 500; ++i) fp::parallel_each(8, [&](int64_t, int) { ++done; });
  first.join();
  second.join();
  CHECK(done == 3 * 500 * 8);
}

TEST_CASE("loops leave the cores that the calling thread may use as they were") {
  const Threads scope(fp::available_cores());
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  for (int i = 0; i < 10; ++i) fp::parallel_each(100, [](int64_t, int) {});
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}
