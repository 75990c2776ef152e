// Data-parallel loops over the cores of this process. This is the only place that uses the threading runtime: OpenMP,
// shared with oneDNN; under the thread sanitizer plain std::thread, whose synchronisation the sanitizer can see.
//
// Results must not depend on the number of threads: split work by index, reduce in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fp {

// Sets the number of threads of the parallel regions that the calling thread starts; the setting is per thread. 0
// restores the default: the number of cores this process may run on.
void set_threads(int threads);
int max_threads();
// Returns the number of cores that this process may run on.
int available_cores();

// Sets one thread per core that this process may run on, and lets follow_load() change the number.
void set_threads_by_load();
// Sets one thread per core that other programs leave free, if set_threads_by_load() was the last setting of the calling
// thread; otherwise it has no effect. Measures at most every half second, or as often as `window_s` says: call it
// between steps. Returns the number of threads if it changed, otherwise 0.
int follow_load();
int follow_load(double window_s);

namespace detail {
void run_parallel(void (*body)(void* context, int thread, int threads), void* context);
}

// Calls body(thread, threads) once on each thread and waits. The body must not throw. Nested calls run on one thread.
template <class Body>
void parallel(Body&& body) {
  detail::run_parallel([](void* context, int thread, int threads) { (*static_cast<Body*>(context))(thread, threads); },
                       const_cast<void*>(static_cast<const void*>(&body)));
}

// Splits [0, n) into one contiguous range per thread, with boundaries at multiples of `grain`, and calls body(begin,
// end) on each.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  parallel([&](int thread, int threads) {
    const int64_t blocks = (n + grain - 1) / grain;
    const int64_t begin = blocks * thread / threads * grain, end = std::min(n, blocks * (thread + 1) / threads * grain);
    if (begin < end) body(begin, end);
  });
}

}  // namespace fp
