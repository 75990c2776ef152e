// Measures the memory of the device that a run computes on: the host's resident set, or the GPU's used memory.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace fp {

class MemoryWatch {
 public:
  // Resets the peak; before() is the memory in use now. The device must outlive this.
  explicit MemoryWatch(const Ops&);
  int64_t before() const { return before_; }
  // Returns the peak since construction, without the pages of programs and libraries that were read since then. Those
  // read after the peak are subtracted too, so call this during a run: it keeps the largest result. For a GPU, whose
  // memory is allocated once and kept, returns the memory in use now.
  int64_t peak() const;
  // Return the bytes still available to `sharers` processes like this one, each within its own limits; 0: not known.
  static int64_t available(const Ops&, int sharers = 1);
  static int64_t available_on_host(int sharers);

 private:
  const Ops* ops_;
  int64_t before_ = 0, files_before_ = 0;
  mutable int64_t highest_ = 0;  // of what peak() has returned
};

}  // namespace fp
