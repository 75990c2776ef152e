// Reads the stack of an unresponsive thread from another thread of its process.
#pragma once

#include <pthread.h>

#include <string>

namespace fp {

// At most one object may live at a time; it owns the process's handler of SIGURG, which restarts interrupted system
// calls.
class StackProbe {
 public:
  StackProbe();  // of the calling thread
  ~StackProbe();
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;

  // Returns one line per frame, each after `prefix`; or one line saying that the thread did not handle the signal
  // within `within_s` seconds.
  std::string text(const std::string& prefix, double within_s) const;

 private:
  pthread_t thread_;
};

}  // namespace fp
