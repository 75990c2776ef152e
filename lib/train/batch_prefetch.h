// Reads the batches of the next step from the disk while this one computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace fp {

// What a step gets depends only on where its samples begin, never on what was read when. One step is read ahead, so a
// run holds the batches of two.
class BatchPrefetch {
 public:
  // Fills the batches of the step whose samples begin at `first`; called from a thread of its own, one call at a time.
  using Load = std::function<void(uint64_t first, std::vector<Batch>&)>;
  explicit BatchPrefetch(Load load);
  // Waits for what is being read.
  ~BatchPrefetch();
  BatchPrefetch(const BatchPrefetch&) = delete;
  BatchPrefetch& operator=(const BatchPrefetch&) = delete;

  // Puts the batches of the step that begins at `first` into `batches`, whose memory is used again, and begins to read
  // those of `next`; nothing: there is no further step. What load() threw for this step is thrown here.
  void take(uint64_t first, std::optional<uint64_t> next, std::vector<Batch>& batches);

 private:
  void work();
  void wait_for_loader(std::unique_lock<std::mutex>& lock);

  const Load load_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<uint64_t> wanted_;  // the thread is to load this, or does
  std::optional<uint64_t> loaded_;  // what ahead_ holds, or error_ is about
  std::vector<Batch> ahead_;        // of the thread while something is wanted
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace fp
