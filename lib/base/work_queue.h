// Work that a thread of its own does in order, so that a disk which hangs holds up nobody who has something to write.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace fp {

class WorkQueue {
 public:
  // Takes no more than so much work at a time.
  explicit WorkQueue(size_t most);
  // Waits for what is left, but no longer than kPatience seconds: then the thread stays behind, and drops what it has
  // not begun.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // `work` throws nothing, and owns what it needs. False: too much is waiting, and it is not taken.
  bool post(std::function<void()> work);
  // Waits for all that was posted, but no longer than so many seconds; whether it is done.
  bool flush(double seconds);
  // How long the work that is being done has taken so far, in seconds; 0: there is none.
  double busy_s() const;

  static constexpr double kPatience = 30;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace fp
