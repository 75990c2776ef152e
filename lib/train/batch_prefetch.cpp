#include "train/batch_prefetch.h"

#include <utility>

namespace fp {

BatchPrefetch::BatchPrefetch(Load load) : load_(std::move(load)), thread_([this] { work(); }) {}

BatchPrefetch::~BatchPrefetch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchPrefetch::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || wanted_; });
    if (ends_) return;
    const uint64_t first = *wanted_;
    lock.unlock();
    std::exception_ptr error;
    try {
      load_(first, ahead_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    wanted_.reset();
    loaded_ = first;
    error_ = error;
    changed_.notify_all();
  }
}

void BatchPrefetch::wait_for_loader(std::unique_lock<std::mutex>& lock) {
  changed_.notify_all();
  changed_.wait(lock, [this] { return !wanted_; });
}

void BatchPrefetch::take(uint64_t first, std::optional<uint64_t> next, std::vector<Batch>& batches) {
  std::unique_lock lock(mutex_);
  wait_for_loader(lock);
  if (loaded_ != first) {
    wanted_ = first;
    wait_for_loader(lock);
  }
  loaded_.reset();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  batches.swap(ahead_);
  wanted_ = next;
  changed_.notify_all();
}

}  // namespace fp
