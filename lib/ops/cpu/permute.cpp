// permute and copy_columns, as copies of contiguous runs, and find_nonfinite.
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "ops/checks.h"
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

void CpuOps::permute(const Tensor& y, const Tensor& x, std::span<const int> order) {
  checks::permute(y, x, order);
  if (x.elements() == 0) return;
  const PermuteWalk p = permutation(x.shape, order);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  auto* to = static_cast<std::byte*>(y.data);
  const auto* from = static_cast<const std::byte*>(x.data);
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

void CpuOps::copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count,
                          Write write) {
  checks::copy_columns(y, y_first, x, x_first, count);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  k_.copy_columns({.bf16 = x.dtype == DType::bf16,
                   .add = write == Write::add,
                   .rows = y.rows(),
                   .count = count,
                   .y_cols = y.cols(),
                   .x_cols = x.cols(),
                   .y = static_cast<std::byte*>(y.data) + y_first * size,
                   .x = static_cast<const std::byte*>(x.data) + x_first * size});
}

void CpuOps::find_nonfinite(const Tensor& first, const Tensor& x) {
  checks::find_nonfinite(first, x);
  const int64_t columns = x.cols();
  parallel_for(x.rows(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      first.ptr<int32_t>()[r] = x.dtype == DType::bf16 ? first_nonfinite(x.ptr<bf16>() + r * columns, columns)
                                                       : first_nonfinite(x.ptr<float>() + r * columns, columns);
  });
}

}  // namespace fp
