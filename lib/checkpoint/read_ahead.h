// Reading boxes of tensors in a thread of its own, while those before them are used.
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

// What to read.
struct ReadJob {
  std::string param;
  StateKind kind;
  Fragment fragment;    // its box goes
  float* to = nullptr;  // here, densely; null: into a buffer
};

class ReadAhead {
 public:
  // Starts reading. Until this is gone nobody else may use the reader. The thread's parallel regions are as wide as the
  // caller's.
  ReadAhead(TensorReader&, std::vector<ReadJob>);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The numbers of the next job, in the order of jobs; valid until the next call. Throws what reading them threw.
  const float* next();

 private:
  static constexpr size_t kSlots = 3;  // boxes that have been read and not been used
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
