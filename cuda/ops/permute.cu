// permute and find_nonfinite.
//
// permute: y consists of runs of elements that are contiguous in x (ops/permutation.h). A thread moves N of them, 16
// bytes where runs and addresses allow it, in the order of y. When the last dimension moves, a run is one element and
// reads are scattered. Reads and writes everything once.
// find_nonfinite: one block per row; each thread reads four accesses at once, and stops where it finds one.
#include <limits>

#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"
#include "ops/permutation.h"

namespace fp {
namespace cuda {
namespace {

constexpr unsigned kThreads = 256;

// The walk of ops/permutation.h, divided into moves of N elements, with strides in elements.
struct Moves {
  uint32_t count, per_run;
  int rank;
  uint32_t size[Shape::kMaxRank];
  int64_t stride[Shape::kMaxRank];
};

template <class T, int N>
__global__ void permute_kernel(T* y, const T* x, Moves m) {
  const uint32_t at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= m.count) return;
  uint32_t rest = at / m.per_run;
  int64_t from = int64_t{at - rest * m.per_run} * N;
#pragma unroll
  for (int i = Shape::kMaxRank - 1; i >= 0; --i) {
    if (i >= m.rank) continue;
    const uint32_t above = rest / m.size[i];
    from += (rest - above * m.size[i]) * m.stride[i];
    rest = above;
  }
  store<N>(y + int64_t{at} * N, load<N>(x + from));
}

template <class T>
void permute(const Tensor& y, const Tensor& x, const PermuteWalk& p, Stream stream) {
  auto* to = static_cast<T*>(y.data);
  const auto* from = static_cast<const T*>(x.data);
  by_width<T>(p.run, {to, from}, [&](auto width) {
    constexpr int N = width.value;
    const int64_t count = x.elements() / N;
    if (count > std::numeric_limits<int32_t>::max())
      throw ConfigError(fmt::format("permute: {} of {} {} takes {} moves of {} elements, at most 2^31-1 are possible",
                                    x.shape.str(), size_of(x.dtype), "bytes an element", count, N));
    Moves m{static_cast<uint32_t>(count), static_cast<uint32_t>(p.run / N), p.rank, {}, {}};
    for (int i = 0; i < p.rank; ++i) m.size[i] = static_cast<uint32_t>(p.size[i]), m.stride[i] = p.stride[i];
    launch<permute_kernel<T, N>>({(m.count + kThreads - 1) / kThreads, kThreads}, stream, to, from, m);
  });
}

constexpr int kBatch = 4;  // accesses in flight

template <class T, int N>
__global__ void find_nonfinite_kernel(int32_t* first, const T* x, int cols) {
  constexpr uint32_t kExponent = 0x7f800000u;
  const T* const row = x + int64_t{blockIdx.x} * cols;
  const int64_t step = int64_t{blockDim.x} * N;
  int found = cols;
  for (int64_t c = int64_t{threadIdx.x} * N; c < cols && found == cols; c += kBatch * step) {
    Vec<T, N> v[kBatch];
    // Instead of what lies beyond the row, the elements at c are looked at twice: what is found last counts.
    for (int k = 0; k < kBatch; ++k) v[k] = load<N>(row + (c + k * step < cols ? c + k * step : c));
    for (int k = kBatch - 1; k >= 0; --k)
      for (int i = N - 1; i >= 0; --i)
        if ((__float_as_uint(to_float(v[k].at[i])) & kExponent) == kExponent)
          found = static_cast<int>(c + k * step) + i;
  }
  found = block_fold<Min>(found);
  if (threadIdx.x == 0) first[blockIdx.x] = found == cols ? -1 : found;
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Permute& call) {
  if (call.x.elements() == 0) return;
  const PermuteWalk p = permutation(call.x.shape, call.order);
  size_of(call.x.dtype) == sizeof(int32_t) ? cuda::permute<int32_t>(call.y, call.x, p, stream())
                                           : cuda::permute<bf16>(call.y, call.x, p, stream());
}

void CudaOps::run(const calls::FindNonfinite& call) {
  if (call.x.elements() == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.x.cols(), {call.x.data}, [&](auto width) {
      constexpr int N = width.value;
      constexpr int64_t kEach = cuda::kBatch * N;
      const cuda::Grid grid{static_cast<unsigned>(call.x.rows()),
                            cuda::threads_for((call.x.cols() + kEach - 1) / kEach, 1024)};
      cuda::launch<cuda::find_nonfinite_kernel<T, N>>(grid, stream(), call.first.ptr<int32_t>(), call.x.ptr<T>(),
                                                      static_cast<int>(call.x.cols()));
    });
  });
}

}  // namespace fp
