// Cross entropy over a vocabulary slice: stats (maximum m, sum s of exp(l - m), target's logit), losses from them, and
// the gradient in place of the logits.
//
// A block handles one row. Forward reads it once, 16 bytes per thread in flight at any time: each thread keeps a
// running maximum and sum and rescales the sum when the maximum grows, once per 16 bytes; then the block reduces them.
// It reads V elements and writes 12 bytes. Backward reads and writes each logit once. The stats of slices are merged by
// one thread per row.
#include <algorithm>

#include "cuda/device/launch.h"
#include "cuda/device/math.h"
#include "cuda/device/vector.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/vocabulary.h"

namespace fp {
namespace cuda {
namespace {

constexpr float kNone = -INFINITY;
constexpr int kStatsThreads = 256, kMostThreads = 1024;

// Returns exp(x - maximum); 0 for x = -infinity, whatever the maximum.
__device__ __forceinline__ float weight(float x, float maximum) { return x == kNone ? 0.0f : expf(x - maximum); }

// The maximum and the sum of exp(x - maximum) of the logits so far.
struct RunningSoftmax {
  float maximum = kNone, sum = 0.0f;

  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N]) {
    float largest = maximum;
    for (int i = 0; i < N; ++i) largest = fmaxf(largest, x[i]);
    const float base = largest == kNone ? 0.0f : largest;
    // Logits may be large and close, so they are subtracted before the product that prepares 2^x.
    sum *= exp2_approx((maximum - base) * kLog2E);
    for (int i = 0; i < N; ++i) sum += exp2_approx((x[i] - base) * kLog2E);
    maximum = largest;
  }
};

template <class T, int N>
__global__ void softmax_stats_kernel(float* stats, const T* logits, const int32_t* targets, Columns c) {
  FP_DYNAMIC_SHARED(unsigned, bits);
  const LiveColumns live = live_columns(c, bits);
  const T* row = logits + int64_t{blockIdx.x} * c.count;
  RunningSoftmax softmax;
  float x[N];
  const int mine = static_cast<int>(threadIdx.x) * N, step = static_cast<int>(blockDim.x) * N;
  // Vectors without a dead column first: their elements need no test.
  const int rounded_down = c.valid / N * N, whole = live.all(0, rounded_down) ? rounded_down : 0;
  Vec<T, N> next{};
  if (mine < whole) next = load<N>(row + mine);
  for (int at = mine; at < whole; at += step) {
    for (int i = 0; i < N; ++i) x[i] = to_float(next.at[i]) * c.scale;
    // This load is in flight during the arithmetic; the last one is not used.
    next = load<N>(row + std::min(at + step, whole - N));
    softmax.add(x);
  }
  for (int at = whole + mine; at < c.count; at += step) {
    const auto v = load<N>(row + at);
    for (int i = 0; i < N; ++i) x[i] = live(at + i) ? to_float(v.at[i]) * c.scale : kNone;
    softmax.add(x);
  }
  const float all = block_fold<Max>(softmax.maximum);
  const float total = block_fold<Sum>(softmax.sum * weight(softmax.maximum, all));
  if (threadIdx.x != 0) return;
  const int target = targets[blockIdx.x] - c.first_id;
  const bool here = targets[blockIdx.x] >= 0 && target >= 0 && target < c.count && live(target);
  float* out = stats + int64_t{blockIdx.x} * 3;
  out[0] = all;
  out[1] = total;
  out[2] = here ? to_float(row[target]) * c.scale : kNone;
}

__global__ void softmax_stats_merge_kernel(float* stats, const float* parts, int slices, int rows) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const float* const first = parts + 3 * int64_t{row};
  const int64_t step = 3 * int64_t{rows};
  float maximum = kNone, sum = 0.0f, target = kNone;
  for (int p = 0; p < slices; ++p) {
    maximum = fmaxf(maximum, first[p * step]);
    target = fmaxf(target, first[p * step + 2]);
  }
  const float base = maximum == kNone ? 0.0f : maximum;
  for (int p = 0; p < slices; ++p) sum += first[p * step + 1] * expf(first[p * step] - base);
  float* const out = stats + 3 * int64_t{row};
  out[0] = maximum;
  out[1] = sum;
  out[2] = target;
}

__global__ void cross_entropy_kernel(float* loss, const float* stats, const int32_t* targets, int rows) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const bool counts = targets[row] >= 0;
  const float maximum = stats[3 * row], log_sum = logf(stats[3 * row + 1]);
  // The difference of the two logits first: they may be large and close.
  loss[2 * row] = counts ? maximum - stats[3 * row + 2] + log_sum : 0.0f;
  loss[2 * row + 1] = counts ? maximum + log_sum : 0.0f;
}

// Grid: rows x pieces of a row.
template <class T, int N>
__global__ void cross_entropy_backward_kernel(T* logits, const float* loss, const int32_t* targets, Columns c,
                                              float scale, float z_loss) {
  FP_DYNAMIC_SHARED(unsigned, bits);
  const LiveColumns live = live_columns(c, bits);
  T* row = logits + int64_t{blockIdx.x} * c.count;
  const int target = targets[blockIdx.x];
  const float lse = target < 0 ? 0.0f : loss[2 * int64_t{blockIdx.x} + 1];
  const float pull = target < 0 ? 0.0f : scale, push = pull * (1.0f + 2.0f * z_loss * lse);
  for (int at = threadIdx.x * N; at < c.count; at += blockDim.x * N) {
    auto v = load<N>(row + at);
    for (int i = 0; i < N; ++i) {
      const float softmax = expf(to_float(v.at[i]) * c.scale - lse);
      const float hit = at + i == target - c.first_id ? pull : 0.0f;
      v.at[i] = from_float<T>(target >= 0 && live(at + i) ? push * softmax - hit : 0.0f);
    }
    store<N>(row + at, v);
  }
}

// Returns the threads for a row of `columns` columns, in whole warps: about two vectors per thread, more beyond `most`.
unsigned threads_for(int64_t columns, int wide, int64_t most) {
  return static_cast<unsigned>(std::clamp<int64_t>((columns / (2 * wide) + 31) / 32 * 32, 32, most));
}

template <class T, int N>
void stats(const Tensor& out, const Tensor& logits, const Tensor& targets, const Columns& c, Stream stream) {
  launch<softmax_stats_kernel<T, N>>(
      {static_cast<unsigned>(logits.rows()), threads_for(c.count, N, kStatsThreads), c.shared_bytes()}, stream,
      out.ptr<float>(), static_cast<const T*>(logits.ptr<T>()), static_cast<const int32_t*>(targets.ptr<int32_t>()), c);
}

template <class T, int N>
void backward(const Tensor& logits, const Tensor& loss, const Tensor& targets, const Columns& c, float scale,
              float z_loss, Stream stream) {
  launch<cross_entropy_backward_kernel<T, N>>(
      {static_cast<unsigned>(logits.rows()), threads_for(c.count, N, kMostThreads), c.shared_bytes()}, stream,
      logits.ptr<T>(), static_cast<const float*>(loss.ptr<float>()),
      static_cast<const int32_t*>(targets.ptr<int32_t>()), c, scale, z_loss);
}

template <class F>
void for_type(const Tensor& x, F&& f) {
  if (x.dtype == DType::bf16)
    widest<bf16>(x.cols(), {x.data}) > 1 ? f.template operator()<bf16, kWide<bf16>>()
                                         : f.template operator()<bf16, 1>();
  else
    widest<float>(x.cols(), {x.data}) > 1 ? f.template operator()<float, kWide<float>>()
                                          : f.template operator()<float, 1>();
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::SoftmaxStats& call) {
  if (call.logits.rows() == 0) return;
  const cuda::Columns c = cuda::columns_of(call.logits, call.vocabulary);
  cuda::for_type(call.logits,
                 [&]<class T, int N>() { cuda::stats<T, N>(call.stats, call.logits, call.targets, c, stream()); });
}

void CudaOps::run(const calls::SoftmaxStatsMerge& call) {
  const auto rows = static_cast<int>(call.stats.rows());
  if (rows == 0) return;
  cuda::launch<cuda::softmax_stats_merge_kernel>(
      {static_cast<unsigned>((rows + 127) / 128), 128}, stream(), call.stats.ptr<float>(),
      static_cast<const float*>(call.parts.ptr<float>()), static_cast<int>(call.parts.shape[0]), rows);
}

void CudaOps::run(const calls::CrossEntropy& call) {
  const auto rows = static_cast<int>(call.loss.rows());
  if (rows == 0) return;
  cuda::launch<cuda::cross_entropy_kernel>({static_cast<unsigned>((rows + 127) / 128), 128}, stream(),
                                           call.loss.ptr<float>(), static_cast<const float*>(call.stats.ptr<float>()),
                                           static_cast<const int32_t*>(call.targets.ptr<int32_t>()), rows);
}

void CudaOps::run(const calls::CrossEntropyBackward& call) {
  if (call.logits.rows() == 0) return;
  const cuda::Columns c = cuda::columns_of(call.logits, call.vocabulary);
  const auto pull = static_cast<float>(call.scale * call.vocabulary.logit_scale);
  cuda::for_type(call.logits, [&]<class T, int N>() {
    cuda::backward<T, N>(call.logits, call.loss, call.targets, c, pull, static_cast<float>(call.z_loss), stream());
  });
}

}  // namespace fp
