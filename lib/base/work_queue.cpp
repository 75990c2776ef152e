#include "base/work_queue.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/progress.h"
#include "base/stopwatch.h"

namespace fp {

struct WorkQueue::State {
  explicit State(size_t limit) : most(limit) {}

  const size_t most;
  mutable std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<std::function<void()>> work;
  bool busy = false, ended = false;
  std::chrono::steady_clock::time_point begun;
  std::atomic<int64_t> progress{0};  // of the queue's work, which the watchdog ignores

  void run() {
    count_progress(&progress);
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return ended || !work.empty(); });
      if (work.empty()) return;
      const std::function<void()> next = std::move(work.front());
      work.pop_front();
      busy = true;
      begun = std::chrono::steady_clock::now();
      lock.unlock();
      next();
      lock.lock();
      busy = false;
      if (work.empty()) idle.notify_all();
    }
  }
};

WorkQueue::WorkQueue(size_t most) : state_(std::make_shared<State>(most)) {
  sigset_t all, former;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);  // signals go to the main thread
  std::thread([state = state_] { state->run(); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

WorkQueue::~WorkQueue() {
  flush(kPatience);
  const std::lock_guard lock(state_->mutex);
  state_->work.clear();
  state_->ended = true;
  state_->wake.notify_all();
}

bool WorkQueue::post(std::function<void()> work) {
  const std::lock_guard lock(state_->mutex);
  if (state_->work.size() >= state_->most) return false;
  state_->work.push_back(std::move(work));
  state_->wake.notify_all();
  return true;
}

bool WorkQueue::flush(double seconds) {
  std::unique_lock lock(state_->mutex);
  return state_->idle.wait_for(lock, std::chrono::duration<double>(seconds),
                               [this] { return state_->work.empty() && !state_->busy; });
}

double WorkQueue::busy_s() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy ? seconds_since(state_->begun) : 0;
}

}  // namespace fp
