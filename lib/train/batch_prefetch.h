// Reads the batches of the next step from disk while the current step computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/sampling/batch.h"

namespace fp {

// The batches of a step depend only on the index of its first sample, never on what was prefetched. One step is read
// ahead, so a run holds the batches of two steps.
class BatchPrefetch {
 public:
  // Fills the batches of the step whose samples begin at index `first`. Called from the prefetch thread, one call at a
  // time.
  using Load = std::function<void(uint64_t first, std::vector<Batch>&)>;
  explicit BatchPrefetch(Load load);
  // Waits for a load that is running.
  ~BatchPrefetch();
  BatchPrefetch(const BatchPrefetch&) = delete;
  BatchPrefetch& operator=(const BatchPrefetch&) = delete;

  // Swaps the batches of the step that begins at sample `first` into `batches`, whose memory is reused, and starts to
  // read those of `next` (nullopt: there is no further step). Rethrows what `load` threw for this step.
  void take(uint64_t first, std::optional<uint64_t> next, std::vector<Batch>& batches);

 private:
  void work();
  void wait_for_loader(std::unique_lock<std::mutex>& lock);

  const Load load_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<uint64_t> wanted_;  // the step that the thread loads or must load
  std::optional<uint64_t> loaded_;  // the step that ahead_ or error_ belongs to
  std::vector<Batch> ahead_;        // owned by the thread while wanted_ is set
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace fp
