// Parallel loops over the cores of this process. Each thread that runs such loops has its own team of threads
// (base/thread_team.h). A team with as many threads as there are cores pins each thread to a core.
//
// Results must not depend on the number of threads: split work by index, reduce in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fp {

// Sets the number of threads of the parallel loops that the calling thread runs; the setting is per thread. 0 restores
// the default, available_cores().
void set_threads(int threads);
int max_threads();
// Sets the number of threads like set_threads() until destroyed, which restores the former number.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads) : before_(max_threads()) { set_threads(threads); }
  ~ScopedThreads() { set_threads(before_); }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  int before_;
};
// Returns the number of cores that this process may run on at the same time, at least 1.
int available_cores();
// The processor time that the process's control group grants, in cores; 0: unlimited, as it is initially. main() sets
// it before there are other threads.
void set_core_quota(int cores);
int core_quota();

namespace detail {
void run_pieces(int64_t pieces, void (*body)(void* context, int64_t piece, int thread), void* context);
}

// Calls body(i, thread) for each i in [0, n), in any order, on whichever of max_threads() threads is free, and waits.
// Two concurrent calls have different values of `thread`. The body must not throw. Nested parallel loops run on one
// thread.
template <class Body>
void parallel_each(int64_t n, Body&& body) {
  detail::run_pieces(
      n, [](void* context, int64_t piece, int thread) { (*static_cast<Body*>(context))(piece, thread); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// Calls body(part, parts) for each of as many parts as there are threads, and waits. The body must not throw.
template <class Body>
void parallel(Body&& body) {
  const int parts = max_threads();
  parallel_each(parts, [&](int64_t part, int) { body(static_cast<int>(part), parts); });
}

// Splits [0, n) into contiguous ranges, several per thread, with boundaries at multiples of `grain`, and calls
// body(begin, end) on each.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  constexpr int64_t kPerThread = 8;  // so that a slow thread delays the others by an eighth of its share
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  const int64_t blocks = (n + grain - 1) / grain, pieces = std::min(blocks, kPerThread * max_threads());
  parallel_each(pieces, [&](int64_t piece, int) {
    body(blocks * piece / pieces * grain, std::min(n, blocks * (piece + 1) / pieces * grain));
  });
}

}  // namespace fp
