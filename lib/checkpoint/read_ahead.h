// Prefetches boxes of tensors in a thread of its own while the caller uses earlier ones.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/tensor_reader.h"

namespace fp {

// One box to read.
struct ReadJob {
  std::string param;
  std::string state;
  Fragment fragment;    // whose box is read
  float* to = nullptr;  // destination, densely packed; null: a buffer of ReadAhead
};

class ReadAhead {
 public:
  // Starts reading. The reader must not be used elsewhere until this object is destroyed. The thread's parallel regions
  // use as many threads as the caller's.
  ReadAhead(TensorReader&, std::vector<ReadJob>);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Returns the values of the next job, in the order of the jobs; valid until the next call. Rethrows what reading them
  // threw.
  const float* next();

 private:
  static constexpr size_t kSlots = 3;  // boxes that were read and not yet used
  struct Slot {
    std::vector<float> buffer;
    const float* values = nullptr;
    std::exception_ptr problem;
  };
  void run(int threads);

  TensorReader& reader_;
  const std::vector<ReadJob> jobs_;
  std::array<Slot, kSlots> slots_;
  std::counting_semaphore<> free_{kSlots}, ready_{0};
  std::atomic<bool> stop_ = false;
  size_t used_ = 0;
  std::thread thread_;
};

}  // namespace fp
