// LayerNorm and RMSNorm forward, with the residual addition before it.
//
// sum = x + residual, y = round((sum - mean) / std) * gain + bias, rows of h elements. A warp handles a row, a block a
// long one; it stays in shared memory for the two passes of the statistics and the result, with all its reads in
// flight at once: everything is read and written once.
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

template <class T>
struct NormArgs {
  T *y, *sum;  // sum null: no residual
  float* stats;
  const T *x, *residual, *gain, *bias;  // bias may be null
  int64_t rows;
  int cols;
  float eps;
  bool layernorm, keeps_residual;  // in shared memory, where it fits beside the row
};

// A thread only accesses its own elements of the row, also in shared memory, so `sum` may alias x or residual.
template <class T, int N>
__global__ void norm_kernel(NormArgs<T> a) {
  FP_DYNAMIC_SHARED(T, kept);
  const int64_t row = kept_row(), base = row * a.cols;
  if (row >= a.rows) return;
  const int first = static_cast<int>(threadIdx.x) * N, step = static_cast<int>(blockDim.x) * N;
  const auto n = static_cast<float>(a.cols);
  T* const values = kept + static_cast<int>(threadIdx.y) * (a.keeps_residual ? 2 : 1) * a.cols;
  T* const residuals = values + a.cols;
  fetch_row<N>(values, a.x + base, a.cols);
  if (a.keeps_residual) fetch_row<N>(residuals, a.residual + base, a.cols);
  wait_for_rows();
  float total = 0.0f;
  for (int c = first; c < a.cols; c += step) {
    Vec<T, N> v = load<N>(values + c);
    if (a.sum != nullptr) {
      const auto r = load<N>(a.keeps_residual ? residuals + c : a.residual + base + c);
      for (int i = 0; i < N; ++i) v.at[i] = from_float<T>(to_float(v.at[i]) + to_float(r.at[i]));
      store<N>(values + c, v);
      store<N>(a.sum + base + c, v);
    }
    for (int i = 0; i < N; ++i) total += to_float(v.at[i]);
  }
  const float mean = a.layernorm ? row_fold<Sum>(total) / n : 0.0f;
  float squares = 0.0f;
  for (int c = first; c < a.cols; c += step) {
    const auto v = load<N>(values + c);
    for (int i = 0; i < N; ++i) {
      const float centred = to_float(v.at[i]) - mean;
      squares += centred * centred;
    }
  }
  const float inverse_std = 1.0f / sqrtf(row_fold<Sum>(squares) / n + a.eps);
  for (int c = first; c < a.cols; c += step) {
    const auto v = load<N>(values + c), gain = load<N>(a.gain + c);
    Vec<T, N> bias{}, y;
    if (a.bias != nullptr) bias = load<N>(a.bias + c);
    for (int i = 0; i < N; ++i) {
      const float normalised = rounded<T>((to_float(v.at[i]) - mean) * inverse_std);
      y.at[i] = from_float<T>(normalised * to_float(gain.at[i]) + to_float(bias.at[i]));
    }
    store<N>(a.y + base + c, y);
  }
  if (threadIdx.x != 0) return;
  a.stats[2 * row] = mean;
  a.stats[2 * row + 1] = inverse_std;
}

template <class T>
T* ptr_or_null(const Tensor& t) {
  return t ? t.ptr<T>() : nullptr;
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Norm& call) {
  if (call.x.elements() == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    const size_t row_bytes = static_cast<size_t>(call.x.cols()) * sizeof(T);
    const cuda::NormArgs<T> args{call.y.ptr<T>(),
                                 cuda::ptr_or_null<T>(call.sum),
                                 call.stats.ptr<float>(),
                                 call.x.ptr<T>(),
                                 cuda::ptr_or_null<T>(call.residual),
                                 call.gain.ptr<T>(),
                                 cuda::ptr_or_null<T>(call.bias),
                                 call.x.rows(),
                                 static_cast<int>(call.x.cols()),
                                 static_cast<float>(call.spec.eps),
                                 call.spec.kind == Norm::layernorm,
                                 call.sum && cuda::keeps(2 * row_bytes, device_.facts())};
    cuda::by_width<T>(
        call.x.cols(), {call.y.data, call.sum.data, call.x.data, call.residual.data, call.gain.data, call.bias.data},
        [&](auto width) {
          constexpr int N = width.value;
          const auto grid = cuda::kept_row_grid("norm", call.x.rows(), call.x.cols() / N,
                                                args.keeps_residual ? 2 * row_bytes : row_bytes, device_.facts());
          cuda::launch<cuda::norm_kernel<T, N>>(grid, stream(), args);
        });
  });
}

}  // namespace fp
