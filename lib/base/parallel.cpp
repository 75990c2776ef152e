#include "base/parallel.h"

#include <omp.h>
#include <sched.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/core_load.h"

namespace fp {
namespace {

#ifdef __SANITIZE_THREAD__
thread_local int thread_count = 0;
thread_local bool inside = false;
#endif

thread_local std::optional<CoreLoad> load;

}  // namespace

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

#ifdef __SANITIZE_THREAD__

static void use_threads(int threads) {
  thread_count = threads > 0 ? threads : available_cores();
  omp_set_num_threads(1);  // oneDNN's own regions run on one thread: libgomp's barriers are invisible to the sanitizer
}

int max_threads() {
  if (thread_count == 0) set_threads(0);
  return inside ? 1 : thread_count;
}

void detail::run_parallel(void (*body)(void*, int, int), void* context) {
  const int threads = max_threads();
  if (threads == 1) return body(context, 0, 1);
  std::vector<std::jthread> team;
  for (int t = 1; t < threads; ++t)
    team.emplace_back([=] {
      inside = true;
      body(context, t, threads);
    });
  inside = true;
  body(context, 0, threads);
  inside = false;
}

#else

static void use_threads(int threads) { omp_set_num_threads(threads > 0 ? threads : available_cores()); }

int max_threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

void detail::run_parallel(void (*body)(void*, int, int), void* context) {
  if (max_threads() == 1) return body(context, 0, 1);
#pragma omp parallel
  body(context, omp_get_thread_num(), omp_get_num_threads());
}

#endif

void set_threads(int threads) {
  load.reset();
  use_threads(threads);
}

void set_threads_by_load() {
  set_threads(0);
  load.emplace(available_cores());
}

int follow_load() { return follow_load(CoreLoad::kWindow); }

int follow_load(double window_s) {
  if (!load) return 0;
  const int before = max_threads(), threads = load->update(window_s);
  if (threads == before) return 0;
  use_threads(threads);
  return threads;
}

}  // namespace fp
