// Merges two partial results of attention, over disjoint sets of keys:
//   l = log(exp(lse) + exp(lse_part)),   o = exp(lse - l) o + exp(lse_part - l) o_part,   lse = l
// o f32 [B,T,H,d] and lse f32 [B,H,T] in place. 8 lanes handle a row of d elements, a block 32 rows; every element is
// read and written once.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/device/warp.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256, kRowLanes = 8, kRows = kThreads / kRowLanes;

template <class T, int N>
__global__ void merge_kernel(float* o, float* lse, const T* o_part, const float* lse_part, unsigned rows,
                             unsigned tokens, unsigned heads, int head_dim) {
  const unsigned row = blockIdx.x * kRows + threadIdx.x / kRowLanes, lane = threadIdx.x % kRowLanes;
  const bool exists = row < rows;
  const unsigned token = row / heads;
  const int64_t at = (int64_t{token / tokens} * heads + row % heads) * tokens + token % tokens;
  const float own = exists ? lse[at] : 0.0f, part = exists ? lse_part[at] : 0.0f;
  const float top = fmaxf(own, part), base = top == -INFINITY ? 0.0f : top;
  const float own_weight = expf(own - base), part_weight = expf(part - base), sum = own_weight + part_weight;
  __syncwarp();  // every lane of the row has read lse
  if (!exists) return;
  if (lane == 0) lse[at] = base + logf(sum);
  if (part == -INFINITY && own != -INFINITY) return;
  const float own_share = own == -INFINITY ? 0.0f : own_weight / sum;
  const float part_share = part == -INFINITY ? 0.0f : part_weight / sum;
  for (int e = static_cast<int>(lane) * N; e < head_dim; e += kRowLanes * N) {
    auto y = load<N>(o + int64_t{row} * head_dim + e);
    const auto x = load<N>(o_part + int64_t{row} * head_dim + e);
    for (int i = 0; i < N; ++i) {
      const float from_own = own == -INFINITY ? 0.0f : own_share * y.at[i];
      y.at[i] = from_own + (part == -INFINITY ? 0.0f : part_share * to_float(x.at[i]));
    }
    store<N>(o + int64_t{row} * head_dim + e, y);
  }
}

template <class T>
void merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part, Stream stream) {
  const int64_t rows = o.rows();
  FP_CHECK(rows < int64_t{1} << 31, "attention_merge: {} rows", rows);
  const Grid grid{static_cast<unsigned>((rows + kRows - 1) / kRows), kThreads};
  const auto start = [&]<int N>() {
    launch<merge_kernel<T, N>>(grid, stream, o.ptr<float>(), lse.ptr<float>(), static_cast<const T*>(o_part.ptr<T>()),
                               static_cast<const float*>(lse_part.ptr<float>()), static_cast<unsigned>(rows),
                               static_cast<unsigned>(o.shape[1]), static_cast<unsigned>(o.shape[2]),
                               static_cast<int>(o.cols()));
  };
  const bool wide = widest<float>(o.cols(), {o.data, o_part.data}) > 1;
  wide ? start.template operator()<kWide<float>>() : start.template operator()<1>();
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::AttentionMerge& call) {
  if (call.o.elements() == 0) return;
  call.o_part.dtype == DType::bf16 ? cuda::merge<bf16>(call.o, call.lse, call.o_part, call.lse_part, stream())
                                   : cuda::merge<float>(call.o, call.lse, call.o_part, call.lse_part, stream());
}

}  // namespace fp
