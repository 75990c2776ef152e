// Copies on the CPU: a thread for each lane copies between memory that plays the device's and the host's part, at a
// speed that can be limited, so that overlap is real and can be tested without a device.
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
  void order_ops_after(const CopyTicket&) override;
  void run(CopyLane);
  Clock::time_point move(const Copy&, Clock::time_point free_at) const;

  CopySettings settings_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Copy>, kCopyLanes> waiting_;
  std::array<int64_t, kCopyLanes> done_{};
  bool ending_ = false;
  std::array<std::thread, kCopyLanes> threads_;
};

}  // namespace fp::cpu
