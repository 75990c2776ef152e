#include "comm/host_reduce.h"

#include <algorithm>

#include "base/parallel.h"

namespace fp {
namespace {

constexpr int64_t kBlock = 1024;  // elements summed at a time, so that the sums stay in the cache

template <class T>
void reduce_block(T* to, std::span<const void* const> sources, int64_t first, int64_t n, Reduction r) {
  float sums[kBlock];
  const auto source = [&](size_t s) { return static_cast<const T*>(sources[s]) + first; };
  std::copy_n(source(0), n, sums);
  for (size_t s = 1; s < sources.size(); ++s) {
    const T* x = source(s);
    if (r == Reduction::sum)
      for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<float>(x[i]);
    else
      for (int64_t i = 0; i < n; ++i) {
        const float v = x[i];
        sums[i] = v > sums[i] || v != v ? v : sums[i];
      }
  }
  for (int64_t i = 0; i < n; ++i) to[first + i] = static_cast<T>(sums[i]);
}

template <class T>
void reduce_all(void* to, std::span<const void* const> sources, int64_t n, Reduction r) {
  parallel_for(n, 16 * kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlock)
      reduce_block(static_cast<T*>(to), sources, i, std::min(kBlock, end - i), r);
  });
}

}  // namespace

void reduce_in_order(void* to, std::span<const void* const> sources, int64_t n, DType dtype, Reduction r) {
  FP_CHECK(dtype == DType::f32 || dtype == DType::bf16, "reduction of {}", name_of(dtype));
  if (dtype == DType::f32)
    reduce_all<float>(to, sources, n, r);
  else
    reduce_all<bf16>(to, sources, n, r);
}

size_t sum_scratch_bytes(const CommCall& c, int rank, int size) {
  const int64_t mine = c.kind == CommKind::all_reduce       ? split_evenly(c.to.elements(), size, rank).count
                       : c.kind == CommKind::reduce_scatter ? c.to.elements()
                                                            : 0;
  return static_cast<size_t>(mine * (size - 1)) * size_of(c.to ? c.to.dtype : c.from.dtype);
}

}  // namespace fp
