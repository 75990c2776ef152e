// Times single ops on random operands: a device's rates, for benchmarks and as the peak rate of MFU.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/timing/timing.h"
#include "tensor/arena.h"

namespace fp {

class OpTimer {
 public:
  explicit OpTimer(Ops& ops) : ops_(ops) {}

  // Allocates an operand of an op, valid until drop(), with random values in [-1, 1), or ids below `below` for i32. The
  // values are random because a GPU multiplies zeros faster.
  Tensor operand(DType dtype, const Shape& shape, int64_t below = 1);
  void drop();  // frees all operands

  // Returns the seconds of one call: the median of `repeats` batches, after one call to warm up. A batch lasts at least
  // 5 ms and is synchronised only at its end, so that the time to launch a call and to wait for it does not count.
  double seconds(const std::function<void()>& call, int repeats);

  Ops& ops() { return ops_; }

 private:
  double batch_seconds(const std::function<void()>& call, int64_t calls);

  Ops& ops_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<ArenaTensor> held_;  // after the arenas: freed before them
};

// Returns the seconds of one matrix product run alone.
double time_gemm(Ops&, const GemmCall&, DType compute, int repeats);

// FLOP/s of this device in this compute type: Ops::peak_flops() where that is known, else measured with a square matrix
// product that is large enough to keep it busy for about 2 ms.
struct PeakRate {
  double flops = 0;
  std::string_view source;  // "data sheet", "operands in registers" or "a large square product"
};
PeakRate peak_rate(Ops&, DType compute);

}  // namespace fp
