#include "base/thread_team.h"

#include <chrono>

namespace fp {
namespace {

constexpr std::chrono::microseconds kSpin{50};  // about what waking a thread takes
constexpr int kLooksPerClock = 64;              // reading the clock takes longer than a look

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Looks at a condition until it holds or kSpin has passed. Returns whether it holds.
template <class Condition>
bool spin_until(Condition&& holds) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (holds()) return true;
      pause_core();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  return false;
}

constexpr int kLoopBits = 32;

int64_t first_of(int64_t pieces, int share, int shares) { return pieces * share / shares; }

}  // namespace

ThreadTeam::ThreadTeam(int threads) : shares_(static_cast<size_t>(threads)) {
  for (int t = 1; t < threads; ++t) others_.emplace_back([this, t] { run_thread(t); });
}

ThreadTeam::~ThreadTeam() {
  ending_ = true;
  ++loop_;
  loop_.notify_all();
  for (std::thread& t : others_) t.join();
}

void ThreadTeam::run(int64_t pieces, Piece body, void* context) {
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
  if (spin_until(done)) return;
  for (int32_t n; (n = unfinished_.load()) != 0;) unfinished_.wait(n);
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
  if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_all();
  return true;
}

// Returns the number of a loop after `last`, once there is one.
uint32_t ThreadTeam::next_loop(uint32_t last) const {
  spin_until([&] { return loop_.load(std::memory_order_relaxed) != last; });
  loop_.wait(last);
  return loop_.load();
}

void ThreadTeam::run_thread(int thread) {
  for (uint32_t loop = 0; !ending_;) {
    loop = next_loop(loop);
    work(loop, thread);
  }
}

}  // namespace fp
