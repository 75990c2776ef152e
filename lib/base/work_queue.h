// A queue of work for a background thread, so that a disk that hangs does not block those who write to it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace fp {

class WorkQueue {
 public:
  // At most `most` entries wait at a time.
  explicit WorkQueue(size_t most);
  // Waits up to kPatience seconds for the remaining work. After that the thread is left running and drops the work it
  // has not begun.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Appends `work`, which must not throw and must own what it needs. Returns false, without taking it, when the queue
  // is full.
  bool post(std::function<void()> work);
  // Waits up to `seconds` for all posted work. Returns whether it is done.
  bool flush(double seconds);
  // Seconds that the current work has taken so far; 0 when idle.
  double busy_s() const;

  static constexpr double kPatience = 30;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace fp
