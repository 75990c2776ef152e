// A gate at which a thread waits until the test opens it.
#pragma once

#include <condition_variable>
#include <mutex>

namespace fp::test {

// pass() blocks until open() is called, like a write to a disk that hangs; await() waits until a thread has reached it.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return open_; });
  }
  void await() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return reached_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    wake_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool reached_ = false, open_ = false;
};

}  // namespace fp::test
