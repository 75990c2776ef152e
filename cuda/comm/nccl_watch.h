// How far the communicators of a rank are, and whether one of them has failed, asked by a thread of its own: a host
// that waits for its device asks nobody, and the lifeline must not wait for a driver.
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

// A place in a stream.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  virtual bool reached() const = 0;  // by the device; any thread may ask
};

// The calls of one communicator. Thread-safe.
class LaneProgress {
 public:
  // `error` gives what the communicator has failed with; empty: nothing.
  LaneProgress(std::string name, std::function<std::string()> error)
      : name_(std::move(name)), error_(std::move(error)) {}
  // One more call, and the mark behind it; null: when it is done is not known, and counts as at once.
  void issued(std::unique_ptr<StreamMark>);
  CommRecord::Lane look();
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
  // `begin` runs first in its thread. What it sees goes into the record.
  NcclWatch(CommRecord&, std::function<void()> begin, std::chrono::milliseconds every = std::chrono::seconds(1));
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(std::shared_ptr<LaneProgress>);
  void remove(const LaneProgress*);  // from now on it is not asked any more
  // One look, as the thread takes every so often.
  void look();

 private:
  CommRecord& record_;
  std::mutex mutex_;  // of what follows, and held while lanes are asked
  std::condition_variable wake_;
  bool ended_ = false;
  std::vector<std::shared_ptr<LaneProgress>> lanes_;
  std::thread thread_;
};

}  // namespace fp::cuda
