// NcclWatch: a thread that polls the progress and the errors of a rank's NCCL communicators. The rank's own thread
// cannot while it waits for its device, and the lifeline must not wait for a driver.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/record.h"

namespace fp::cuda {

// A point in a stream.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  virtual bool reached() const = 0;  // whether the device has reached it; thread-safe
};

// Progress of the calls of one communicator. Thread-safe.
class LaneProgress {
 public:
  // `error` returns the error of the communicator; empty: none.
  LaneProgress(std::string name, std::function<std::string()> error)
      : name_(std::move(name)), error_(std::move(error)) {}
  // Records one more call and the mark after it. Null: its end cannot be observed, and it counts as finished at once.
  void issued(std::unique_ptr<StreamMark>);
  CommRecord::Lane poll();
  std::string error() const { return error_(); }

 private:
  const std::string name_;
  const std::function<std::string()> error_;
  std::mutex mutex_;
  int64_t issued_ = 0, finished_ = 0;
  std::deque<std::pair<int64_t, std::unique_ptr<StreamMark>>> under_way_;
};

class NcclWatch {
 public:
  // Polls every `every` and writes the results into the record. `begin` runs first in its thread.
  NcclWatch(CommRecord&, std::function<void()> begin, std::chrono::milliseconds every = std::chrono::seconds(1));
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(std::shared_ptr<LaneProgress>);
  void remove(const LaneProgress*);  // from then on it is no longer polled
  // Polls all lanes once, as the thread does periodically.
  void poll();

 private:
  CommRecord& record_;
  std::mutex mutex_;  // guards the members below; held while lanes are polled
  std::condition_variable wake_;
  bool ended_ = false;
  std::vector<std::shared_ptr<LaneProgress>> lanes_;
  std::thread thread_;
};

}  // namespace fp::cuda
