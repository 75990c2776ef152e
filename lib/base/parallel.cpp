#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/thread_team.h"

namespace fp {
namespace {

// What a thread runs loops on.
struct Loops {
  int threads = 0;                   // 0: not set yet
  bool inside = false;               // in the body of a loop
  std::unique_ptr<ThreadTeam> team;  // made by the first loop
};
thread_local Loops own;

int quota = 0;

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

}  // namespace

int available_cores() {
  const int allowed = std::max(1, static_cast<int>(cores().size()));
  return quota > 0 ? std::min(allowed, quota) : allowed;
}

void set_core_quota(int cores) { quota = cores; }
int core_quota() { return quota; }

int max_threads() {
  if (own.threads == 0) set_threads(0);
  return own.inside ? 1 : own.threads;
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
  if (own.team == nullptr || own.team->size() != threads) {
    own.team.reset();
    own.team = std::make_unique<ThreadTeam>(threads, cores_for(threads));
  }
  own.team->run(pieces, run, &call);
}

void set_threads(int threads) { own.threads = threads > 0 ? threads : available_cores(); }

}  // namespace fp
