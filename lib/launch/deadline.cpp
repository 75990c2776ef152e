#include "launch/deadline.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/log.h"

namespace fp {

Deadline::Deadline(double seconds, std::string message) {
  if (seconds <= 0) return;
  watcher_ = std::thread([this, seconds, message = std::move(message)] {
    std::unique_lock lock(mutex_);
    if (over_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return met_; })) return;
    log::error("{}", message);
    ::_exit(1);
  });
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
  }
  over_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace fp
