// Copies on the CPU: a thread for each lane copies between memory that plays the device's and the host's part, at a
// speed that can be limited, or runs ops of the host, so that overlap is real and can be tested without a device.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "ops/copies.h"

namespace fp::cpu {

class CopyThreads final : public Copies {
 public:
  explicit CopyThreads(const CopySettings&);
  ~CopyThreads() override;  // after the last copy

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const Copy&) override;
  void begin(HostOp) override;
  void order_ops_after(const CopyTicket&) override;
  struct Work {
    CopyTicket ticket, after;
    std::function<void()> run;
  };
  void add(Work);
  void run(CopyLane);
  // Runs work of a lane that moves this many bytes, for as long as the lane's speed says.
  void run_at_speed(CopyLane, size_t bytes, const std::function<void()>&);

  CopySettings settings_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Work>, kLanes> waiting_;
  std::array<int64_t, kLanes> done_{};
  std::array<Clock::time_point, kLanes> free_at_{};  // by lane, which alone uses its own
  bool ending_ = false;
  std::array<std::thread, kLanes> threads_;
};

}  // namespace fp::cpu
