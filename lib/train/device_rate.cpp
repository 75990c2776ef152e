#include "train/device_rate.h"

#include <algorithm>
#include <chrono>

#include "tensor/arena.h"

namespace fp {

double measure_gemm_rate(Ops& ops, DType compute) {
  if (const double peak = ops.peak_flops(compute); peak > 0) return peak;
  const int64_t n = ops.device_memory() ? 8192 : 1024;  // large enough to keep the device busy
  const size_t bytes = static_cast<size_t>(4 * n * n) * size_of(compute);
  Arena arena(ops.allocate(bytes), bytes);
  const ArenaTensor x = arena.alloc(compute, {n, n}), w = arena.alloc(compute, {n, n}),
                    y = arena.alloc(compute, {n, n});
  ops.zero(x);
  ops.zero(w);
  ops.linear(y, x, w, {});  // warm-up: kernels are made on first use
  ops.synchronize();
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ops.linear(y, x, w, {});
    ops.synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds.count());
  }
  return best;
}

}  // namespace fp
