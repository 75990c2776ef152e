#include "ops/cpu/copy_threads.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"

namespace fp::cpu {

CopyThreads::CopyThreads(const CopySettings& settings) : settings_(settings) {
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
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

void CopyThreads::add(Work work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_[index_of(work.ticket.lane)].push_back(std::move(work));
  }
  changed_.notify_all();
}

void CopyThreads::begin(const Copy& c) {
  add({c.ticket, c.after,
       [this, c] { run_at_speed(c.ticket.lane, c.bytes, [&c] { std::memcpy(c.dst, c.src, c.bytes); }); }});
}

void CopyThreads::begin(HostOp op) {
  add({op.ticket, op.after, [this, threads = max_threads(), bytes = op.bytes, run = std::move(op.run)] {
         set_threads(threads);  // as many as the rank has
         run_at_speed(CopyLane::on_host, bytes, run);
       }});
}

// Ops run on the calling thread, so they wait if it does.
void CopyThreads::order_ops_after(const CopyTicket& t) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_[index_of(t.lane)] >= t.number; });
}

void CopyThreads::run(CopyLane lane) {
  std::deque<Work>& mine = waiting_[index_of(lane)];
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !mine.empty(); });
    if (mine.empty()) return;
    const Work work = std::move(mine.front());
    mine.pop_front();
    changed_.wait(lock, [&] { return done_[index_of(work.after.lane)] >= work.after.number; });
    lock.unlock();
    if (settings_.before_copy) settings_.before_copy(lane);
    work.run();
    lock.lock();
    done_[index_of(lane)] = work.ticket.number;
    changed_.notify_all();
  }
}

// Work that follows at once begins when the one before should have ended, so that delays in waking up do not add up.
void CopyThreads::run_at_speed(CopyLane lane, size_t bytes, const std::function<void()>& work) {
  constexpr std::chrono::milliseconds kAtOnce{2};
  Clock::time_point& free_at = free_at_[index_of(lane)];
  const Clock::time_point now = Clock::now(), start = now - free_at < kAtOnce ? free_at : now;
  work();
  free_at = Clock::now();
  const double bytes_per_s = settings_.bytes_per_s[index_of(lane)];
  if (bytes_per_s <= 0) return;
  const std::chrono::duration<double> taken(static_cast<double>(bytes) / bytes_per_s);
  free_at = start + std::chrono::duration_cast<Clock::duration>(taken);
  std::this_thread::sleep_until(free_at);
}

}  // namespace fp::cpu
