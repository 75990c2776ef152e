// The stack of a thread that does not answer, read from another thread of its process.
#pragma once

#include <pthread.h>

#include <string>

namespace fp {

// At most one lives at a time; it owns the process's handler of SIGURG, which interrupts no system call.
class StackProbe {
 public:
  StackProbe();  // of the calling thread
  ~StackProbe();
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;

  // One line a frame, each after `prefix`; or one that says that the thread took no signal for so long.
  std::string text(const std::string& prefix, double within_s) const;

 private:
  pthread_t thread_;
};

}  // namespace fp
