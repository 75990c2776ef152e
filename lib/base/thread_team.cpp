#include "base/thread_team.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/error.h"

namespace fp {
namespace {

constexpr std::chrono::microseconds kSpin{50};          // about what waking a thread takes
constexpr int kLooksPerClock = 64;                      // reading the clock takes longer than a look
constexpr std::chrono::milliseconds kBetweenMoves{20};  // of thread 0 to another core, at least
constexpr int kTicksToWait = 2;                         // for a thread that has been taken off its core

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Looks at a condition until it holds or so much time has passed. Returns whether it holds.
template <class Condition>
bool spin_until(Condition&& holds, std::chrono::nanoseconds most = kSpin) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (holds()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() - start < most);
  return false;
}

// Asks for short time slices, so that a thread that shares its core with another program is not off it for long while
// others wait for it. Linux before 6.12 ignores it.
void ask_for_short_time_slices() {
#ifdef SYS_sched_setattr
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
    uint32_t least_use, most_use;
  } a{};
  constexpr uint64_t kSlice = 200'000;  // nanoseconds
  if (::syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0 || a.policy != SCHED_OTHER) return;
  a.slice_ns = kSlice;
  ::syscall(SYS_sched_setattr, 0, &a, 0);
#endif
}

void run_on_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);  // where it fails, the thread stays on the cores that it has
}

// Returns whether the calling thread may run on a core, and, with `only`, on no other.
bool may_run_on(int core, bool only = false) {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(core, &set) && (!only || CPU_COUNT(&set) == 1);
}

// Keeps the calling thread on a core for a scope. Without one, the system moves threads that wake each other to the
// same core when a program keeps another one busy. Cores that someone sets from outside meanwhile prevail.
class OnCore {
 public:
  explicit OnCore(int core) {
    if (core < 0 || ::sched_getaffinity(0, sizeof before_, &before_) != 0 || !CPU_ISSET(core, &before_)) return;
    core_ = core;
    run_on_core(core_);
  }
  ~OnCore() {
    cpu_set_t now;
    if (core_ >= 0 && ::sched_getaffinity(0, sizeof now, &now) == 0 && CPU_COUNT(&now) == 1 && CPU_ISSET(core_, &now))
      ::sched_setaffinity(0, sizeof before_, &before_);
  }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_;
  int core_ = -1;
};

constexpr int kLoopBits = 32;

int64_t first_of(int64_t pieces, int share, int shares) { return pieces * share / shares; }

}  // namespace

ThreadTeam::ThreadTeam(int threads, const std::vector<int>& cores)
    : shares_(static_cast<size_t>(threads)), workers_(static_cast<size_t>(threads)) {
  FP_CHECK(cores.empty() || cores.size() == workers_.size(), "{} cores for {} threads", cores.size(), threads);
  for (size_t t = 0; t < cores.size(); ++t) workers_[t].core = cores[t];
  ask_for_short_time_slices();  // the others inherit it
  try {
    for (int t = 1; t < threads; ++t) others_.emplace_back([this, t] { run_thread(t); });
  } catch (const std::system_error& e) {
    stop();
    throw InfrastructureError(fmt::format("cannot start {} threads: {}; run.threads sets how many", threads, e.what()));
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  ending_ = true;
  ++loop_;
  loop_.notify_all();
  for (std::thread& t : others_) t.join();
}

void ThreadTeam::run(int64_t pieces, Piece body, void* context) noexcept {
  leave_shared_core();
  const OnCore scope(workers_[0].core);
  body_ = body;
  context_ = context;
  pieces_ = pieces;
  unfinished_.store(static_cast<int32_t>(pieces), std::memory_order_relaxed);
  const uint32_t loop = loop_.load(std::memory_order_relaxed) + 1;
  for (int s = 0; s < size(); ++s) {
    const auto count = static_cast<uint64_t>(first_of(pieces, s + 1, size()) - first_of(pieces, s, size()));
    shares_[static_cast<size_t>(s)].left.store(uint64_t{loop} << kLoopBits | count, std::memory_order_release);
  }
  loop_.store(loop);  // sequentially consistent, as notify_all() reads whether a thread sleeps
  loop_.notify_all();
  work(loop, 0);
  const auto done = [&] { return unfinished_.load() == 0; };
  if (spin_until(done, is_beside_shared_core() ? kTicksToWait * CoreTurns::system_tick() : kSpin)) return;
  for (int32_t n; (n = unfinished_.load()) != 0;) unfinished_.wait(n);
}

// Exchanges the core of thread 0, without which no loop begins, with that of a thread that has its core to itself.
void ThreadTeam::leave_shared_core() {
  if (workers_[0].core < 0 || !workers_[0].turns.shares_core()) return;
  const auto now = CoreTurns::Clock::now();
  Worker* const alone = worker_alone();
  if (alone == nullptr || now - moved_ < kBetweenMoves || !may_run_on(alone->core)) return;
  moved_ = now;
  alone->core = workers_[0].core.exchange(alone->core);
  workers_[0].turns.reset();
}

// Returns a thread that has its core to itself; null if there is none.
ThreadTeam::Worker* ThreadTeam::worker_alone() {
  const auto found = std::ranges::find_if(workers_, [](const Worker& w) { return !w.turns.shares_core(); });
  return found == workers_.end() ? nullptr : &*found;
}

// Whether thread 0 has its core to itself, but another thread has not. If thread 0 slept then, the system would move
// the other program to its core.
bool ThreadTeam::is_beside_shared_core() const {
  return workers_[0].core >= 0 && !workers_[0].turns.shares_core() &&
         std::ranges::any_of(workers_, [](const Worker& w) { return w.turns.shares_core(); });
}

// Takes pieces of the own share first, then of the others'.
void ThreadTeam::work(uint32_t loop, int thread) {
  for (int i = 0; i < size(); ++i)
    while (take_one(loop, (thread + i) % size(), thread)) {
    }
}

// The members of a loop are read after a piece is taken: until that piece is done, they do not change.
bool ThreadTeam::take_one(uint32_t loop, int share, int thread) {
  std::atomic<uint64_t>& left = shares_[static_cast<size_t>(share)].left;
  uint64_t seen = left.load(std::memory_order_acquire);
  do {
    if (seen >> kLoopBits != loop || static_cast<uint32_t>(seen) == 0) return false;
  } while (!left.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire));
  const int64_t piece = first_of(pieces_, share + 1, size()) - static_cast<int64_t>(static_cast<uint32_t>(seen));
  body_(context_, piece, thread);
  CoreTurns& turns = workers_[static_cast<size_t>(thread)].turns;
  if (unfinished_.fetch_sub(1) == 1)
    unfinished_.notify_all();
  else if (turns.ends_soon())
    turns.give_up();
  return true;
}

// Returns the number of a loop after `last`, once there is one.
uint32_t ThreadTeam::next_loop(uint32_t last) const {
  spin_until([&] { return loop_.load(std::memory_order_relaxed) != last; });
  loop_.wait(last);
  return loop_.load();
}

void ThreadTeam::run_thread(int thread) {
  Worker& self = workers_[static_cast<size_t>(thread)];
  int core = -1;
  for (uint32_t loop = 0; !ending_;) {
    loop = next_loop(loop);
    if (const int chosen = self.core; chosen != core) {
      if (core < 0 || may_run_on(core, true)) run_on_core(chosen);  // cores that someone sets from outside prevail
      core = chosen;
      self.turns.reset();
    }
    work(loop, thread);
  }
}

}  // namespace fp
