// Memory of the device that a run computes on, against what was predicted: the host's resident set, or a GPU's.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace fp {

class MemoryWatch {
 public:
  // Starts a new peak: what is used now is before(). The device must outlive this.
  explicit MemoryWatch(const Ops&);
  int64_t before() const { return before_; }
  // The highest so far; of a GPU, whose memory is taken once and kept, what is used now.
  int64_t peak() const;
  // Bytes still to be had by `sharers` processes like this one, each within its own limits; 0: not known.
  static int64_t available(const Ops&, int sharers = 1);
  static int64_t available_on_host(int sharers);

 private:
  const Ops* ops_;
  int64_t before_ = 0;
};

}  // namespace fp
