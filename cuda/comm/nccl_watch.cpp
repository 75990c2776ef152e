#include "cuda/comm/nccl_watch.h"

#include <signal.h>

namespace fp::cuda {

void LaneProgress::issued(std::unique_ptr<StreamMark> mark) {
  const std::lock_guard lock(mutex_);
  ++issued_;
  under_way_.emplace_back(issued_, std::move(mark));
}

CommRecord::Lane LaneProgress::poll() {
  const std::lock_guard lock(mutex_);
  while (!under_way_.empty() && (under_way_.front().second == nullptr || under_way_.front().second->reached())) {
    finished_ = under_way_.front().first;
    under_way_.pop_front();
  }
  return {name_, issued_, finished_};
}

NcclWatch::NcclWatch(CommRecord& record, std::function<void()> begin, std::chrono::milliseconds every)
    : record_(record) {
  sigset_t all, former;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);  // signals are handled by the main thread
  thread_ = std::thread([this, begin = std::move(begin), every] {
    begin();
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (wake_.wait_for(lock, every, [this] { return ended_; })) return;
      }
      poll();
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

NcclWatch::~NcclWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void NcclWatch::add(std::shared_ptr<LaneProgress> lane) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(std::move(lane));
}

void NcclWatch::remove(const LaneProgress* lane) {
  const std::lock_guard lock(mutex_);
  std::erase_if(lanes_, [&](const auto& l) { return l.get() == lane; });
}

void NcclWatch::poll() {
  const std::lock_guard lock(mutex_);
  std::vector<CommRecord::Lane> seen;
  for (const auto& lane : lanes_) {
    seen.push_back(lane->poll());
    if (const std::string error = lane->error(); !error.empty()) record_.set_error(error);
  }
  record_.set_lanes(std::move(seen));
}

}  // namespace fp::cuda
