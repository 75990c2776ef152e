#include "checkpoint/read_ahead.h"

#include <utility>

#include "base/parallel.h"

namespace fp {

ReadAhead::ReadAhead(TensorReader& reader, std::vector<ReadJob> jobs)
    : reader_(reader), jobs_(std::move(jobs)), thread_([this, threads = max_threads()] { run(threads); }) {}

ReadAhead::~ReadAhead() {
  stop_ = true;
  free_.release();
  thread_.join();
}

void ReadAhead::run(int threads) {
  set_threads(threads);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    free_.acquire();
    if (stop_) return;
    const ReadJob& job = jobs_[i];
    Slot& slot = slots_[i % kSlots];
    try {
      if (job.to == nullptr) slot.buffer.resize(static_cast<size_t>(job.fragment.count.elements()));
      float* const to = job.to == nullptr ? slot.buffer.data() : job.to;
      reader_.read(job.param, job.state, job.fragment, to, dense_window(job.fragment));
      slot.values = to;
    } catch (...) {
      slot.problem = std::current_exception();
    }
    ready_.release();
    if (slot.problem != nullptr) return;
  }
}

const float* ReadAhead::next() {
  if (used_ > 0) free_.release();
  ready_.acquire();
  const Slot& slot = slots_[used_++ % kSlots];
  if (slot.problem != nullptr) std::rethrow_exception(slot.problem);
  return slot.values;
}

}  // namespace fp
