// permute, as a transposition or copies of contiguous runs, copy_columns and find_nonfinite.
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/permutation.h"

namespace fp {
namespace {

constexpr int64_t kGrain = int64_t{1} << 14;  // elements

template <class T>
int32_t first_nonfinite(const T* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(static_cast<float>(x[i]))) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace

void CpuOps::run(const calls::Permute& call) {
  if (call.x.elements() == 0) return;
  const PermuteWalk p = permutation(call.x.shape, call.order);
  if (p.run == 1 && p.rank == 2 && p.stride[0] == 1)
    return k_.transpose({.bf16 = call.x.dtype == DType::bf16,
                         .rows = p.size[1],
                         .cols = p.size[0],
                         .y = call.y.data,
                         .x = call.x.data});
  const auto size = static_cast<int64_t>(size_of(call.x.dtype));
  auto* to = static_cast<std::byte*>(call.y.data);
  const auto* from = static_cast<const std::byte*>(call.x.data);
  parallel_for(p.runs(), kGrain / std::min(p.run, kGrain), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, at = 0;
      for (int i = p.rank - 1; i >= 0; --i) {
        at += rest % p.size[i] * p.stride[i];
        rest /= p.size[i];
      }
      std::memcpy(to + r * p.run * size, from + at * size, static_cast<size_t>(p.run * size));
    }
  });
}

void CpuOps::run(const calls::CopyColumns& call) {
  const auto size = static_cast<int64_t>(size_of(call.x.dtype));
  k_.copy_columns({.bf16 = call.x.dtype == DType::bf16,
                   .add = call.write == Write::add,
                   .rows = call.y.rows(),
                   .count = call.count,
                   .y_cols = call.y.cols(),
                   .x_cols = call.x.cols(),
                   .y = static_cast<std::byte*>(call.y.data) + call.y_first * size,
                   .x = static_cast<const std::byte*>(call.x.data) + call.x_first * size});
}

void CpuOps::run(const calls::FindNonfinite& call) {
  const int64_t columns = call.x.cols();
  parallel_for(call.x.rows(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      call.first.ptr<int32_t>()[r] = call.x.dtype == DType::bf16
                                         ? first_nonfinite(call.x.ptr<bf16>() + r * columns, columns)
                                         : first_nonfinite(call.x.ptr<float>() + r * columns, columns);
  });
}

}  // namespace fp
