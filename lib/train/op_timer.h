// Times single ops on operands of random values: a device's rates, for benchmarks and as the yardstick of MFU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/timing/timing.h"
#include "tensor/arena.h"

namespace fp {

class OpTimer {
 public:
  explicit OpTimer(Ops& ops) : ops_(ops) {}

  // Memory of one op's operands, kept until drop(): values in [-1, 1), or ids below `below`. Random, since a GPU
  // multiplies zeros faster than it does numbers.
  Tensor operand(DType dtype, const Shape& shape, int64_t below = 1);
  void drop();

  // Seconds of one call: the median of `repeats` batches, one more coming first to warm up. A batch lasts 5 ms or more
  // and is waited for at its end only, so that what it takes to launch a call and to wait for it does not count.
  double seconds(const std::function<void()>& call, int repeats);

  Ops& ops() { return ops_; }

 private:
  double batch_seconds(const std::function<void()>& call, int64_t calls);

  Ops& ops_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<ArenaTensor> held_;  // after the arenas: given back before they go
};

// Seconds of one matrix product run alone.
double time_gemm(Ops&, const GemmCall&, DType compute, int repeats);

// FLOP/s that this device can do in this compute type: its data sheet's where that is known, else a square product's
// that is large enough to keep it busy for a few milliseconds.
struct PeakRate {
  double flops = 0;
  bool from_data_sheet = false;
};
PeakRate peak_rate(Ops&, DType compute);

}  // namespace fp
