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
