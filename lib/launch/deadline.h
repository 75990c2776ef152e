// A time limit for what can hang before there is a lifeline between the ranks.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace fp {

class Deadline {
 public:
  // Ends this process, with code 1 and the message as an error, unless this is destroyed within so many seconds; 0: has
  // all the time there is.
  Deadline(double seconds, std::string message);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool met_ = false;
  std::thread watcher_;
};

}  // namespace fp
