#include "ops/cpu/copy_threads.h"

#include <algorithm>
#include <cstring>

namespace fp::cpu {

CopyThreads::CopyThreads(const CopySettings& settings) : settings_(settings) {
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device})
    threads_[index_of(lane)] = std::thread([this, lane] { run(lane); });
}

CopyThreads::~CopyThreads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void CopyThreads::begin(const Copy& c) {
  {
    const std::lock_guard lock(mutex_);
    waiting_[index_of(c.ticket.lane)].push_back(c);
  }
  changed_.notify_all();
}

// Ops run on the calling thread, so they wait if it does.
void CopyThreads::order_ops_after(const CopyTicket& t) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_[index_of(t.lane)] >= t.number; });
}

void CopyThreads::run(CopyLane lane) {
  std::deque<Copy>& mine = waiting_[index_of(lane)];
  Clock::time_point free_at{};
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !mine.empty(); });
    if (mine.empty()) return;
    const Copy c = mine.front();
    mine.pop_front();
    changed_.wait(lock, [&] { return done_[index_of(c.after.lane)] >= c.after.number; });
    lock.unlock();
    free_at = move(c, free_at);
    lock.lock();
    done_[index_of(lane)] = c.ticket.number;
    changed_.notify_all();
  }
}

// Returns when the lane is free for the next copy, which is now. A copy that follows at once begins when the one before
// should have ended, so that delays in waking up do not add up.
CopyThreads::Clock::time_point CopyThreads::move(const Copy& c, Clock::time_point free_at) const {
  constexpr std::chrono::milliseconds kAtOnce{2};
  if (settings_.before_copy) settings_.before_copy(c.ticket.lane);
  const Clock::time_point now = Clock::now(), start = now - free_at < kAtOnce ? free_at : now;
  std::memcpy(c.dst, c.src, c.bytes);
  if (settings_.bytes_per_s <= 0) return Clock::now();
  const std::chrono::duration<double> taken(static_cast<double>(c.bytes) / settings_.bytes_per_s);
  const Clock::time_point end = start + std::chrono::duration_cast<Clock::duration>(taken);
  std::this_thread::sleep_until(end);
  return end;
}

}  // namespace fp::cpu
