#include "base/parallel.h"

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/core_load.h"
#include "base/thread_team.h"

namespace fp {
namespace {

// What a thread runs loops on.
struct Loops {
  int threads = 0;                   // 0: not set yet
  bool inside = false;               // in the body of a loop
  std::unique_ptr<ThreadTeam> team;  // made by the first loop
  std::optional<CoreLoad> load;
};
thread_local Loops own;

std::atomic<bool> on_openmp = false;

// Returns the cores that this thread may run on; none if they are unknown.
std::vector<int> cores() {
  cpu_set_t set;
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return all;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) all.push_back(core);
  return all;
}

// Returns a core for each of `threads` threads, or none if there are more or fewer cores.
std::vector<int> cores_for(int threads) {
  std::vector<int> all = cores();
  return static_cast<int>(all.size()) == threads ? all : std::vector<int>{};
}

// Loops that a body runs are its own.
struct Inside {
  bool before = std::exchange(own.inside, true);
  ~Inside() { own.inside = before; }
};

void use_threads(int threads) {
  own.threads = threads > 0 ? threads : available_cores();
#ifdef __SANITIZE_THREAD__
  omp_set_num_threads(1);  // libgomp's barriers, on which oneDNN relies, are invisible to the sanitizer
#else
  omp_set_num_threads(own.threads);
#endif
}

}  // namespace

int available_cores() { return std::max(1, static_cast<int>(cores().size())); }

int max_threads() {
  if (own.threads == 0) set_threads(0);
  return own.inside ? 1 : own.threads;
}

void use_openmp_threads() {
#ifndef __SANITIZE_THREAD__
  on_openmp = true;
#endif
}

void detail::run_pieces(int64_t pieces, void (*body)(void*, int64_t, int), void* context) {
  struct Call {
    void (*body)(void*, int64_t, int);
    void* context;
  } call{body, context};
  const auto run = [](void* c, int64_t piece, int thread) {
    const Inside inside;
    static_cast<Call*>(c)->body(static_cast<Call*>(c)->context, piece, thread);
  };
  const int threads = max_threads();
  if (threads == 1 || pieces <= 1) {
    for (int64_t i = 0; i < pieces; ++i) body(context, i, 0);
    return;
  }
  if (on_openmp) {
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < pieces; ++i) run(&call, i, omp_get_thread_num());
    return;
  }
  if (own.team == nullptr || own.team->size() != threads) {
    own.team.reset();
    own.team = std::make_unique<ThreadTeam>(threads, cores_for(threads));
  }
  own.team->run(pieces, run, &call);
}

void set_threads(int threads) {
  own.load.reset();
  use_threads(threads);
}

void set_threads_by_load() {
  set_threads(0);
  own.load.emplace(available_cores());
}

int follow_load() { return follow_load(CoreLoad::kWindow); }

int follow_load(double window_s) {
  if (!own.load || !on_openmp) return 0;
  const int before = max_threads(), threads = own.load->update(window_s);
  if (threads == before) return 0;
  use_threads(threads);
  return threads;
}

}  // namespace fp
