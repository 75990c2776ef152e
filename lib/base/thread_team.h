// A team of threads that runs parallel loops with work stealing: each thread starts with a contiguous range of a loop's
// pieces and, when these are done, steals pieces that other threads have not begun. So a thread that the operating
// system has stopped delays the others by at most one piece, and mostly it stops between pieces (base/core_turns.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/core_turns.h"

namespace fp {

class ThreadTeam {
 public:
  using Piece = void (*)(void* context, int64_t piece, int thread);

  // The calling thread is thread 0; `threads` - 1 more are started, and wait for loops. With `cores`, one for each
  // thread, each runs on a core of its own, thread 0 only within run(): on one that no other program uses, if there is
  // one. Throws InfrastructureError if a thread cannot be started.
  explicit ThreadTeam(int threads, const std::vector<int>& cores = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(shares_.size()); }

  // Calls body(context, piece, thread) for each piece in [0, pieces) once, and returns when all calls have returned.
  // The body must not throw or call run(). Only the thread that made the team may call this. At most 2^31 pieces.
  void run(int64_t pieces, Piece body, void* context) noexcept;

 private:
  // Loop number in the upper half, pieces that nobody has begun in the lower: both change at once, so a thread that is
  // late cannot take a piece of a loop other than the one it has seen.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };

  struct alignas(64) Worker {
    std::atomic<int> core{-1};  // -1: any
    CoreTurns turns;
  };

  void leave_shared_core();
  Worker* worker_alone();
  bool is_beside_shared_core() const;
  void work(uint32_t loop, int thread);
  bool take_one(uint32_t loop, int share, int thread);
  uint32_t next_loop(uint32_t last) const;
  void run_thread(int thread);
  void stop();

  std::vector<Share> shares_;
  std::vector<Worker> workers_;
  CoreTurns::Clock::time_point moved_{};
  Piece body_ = nullptr;
  void* context_ = nullptr;
  int64_t pieces_ = 0;
  alignas(64) std::atomic<int32_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> loop_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> others_;
};

}  // namespace fp
