// Backward of LayerNorm and RMSNorm, and the sums over tokens: gradients of gain and bias, and of any layer's bias.
//
// Input: with g = dy * gain and n = (x - mean) / std, dx = (g - mean(g) - n * mean(g n)) / std, means over the row
// (RMSNorm has no mean(g)). A block handles a row; dy and x stay in shared memory between the sums and the result.
// Weight: dgain[c] = sum over tokens of dy * round(n), dbias[c] = sum of dy (column_sums.h). Each reads dy and x once.
#include "cuda/ops/column_sums.h"
#include "cuda/ops/cuda_ops.h"
#include "ops/checks.h"

namespace fp {
namespace cuda {
namespace {

template <class T>
struct NormBackwardArgs {
  T* dx;
  const T *dy, *x, *gain;
  const float* stats;
  int cols;
  bool layernorm, add;
};

// A thread only accesses its own elements of the row, also in shared memory.
template <class T, int N>
__global__ void norm_backward_kernel(NormBackwardArgs<T> a) {
  FP_DYNAMIC_SHARED(T, rows);
  T *const dys = rows, *const xs = rows + a.cols;
  const int64_t base = int64_t{blockIdx.x} * a.cols;
  const int first = static_cast<int>(threadIdx.x) * N, step = static_cast<int>(blockDim.x) * N;
  const auto n = static_cast<float>(a.cols);
  const float mean = a.stats[2 * int64_t{blockIdx.x}], inverse_std = a.stats[2 * int64_t{blockIdx.x} + 1];
  float sum_g = 0.0f, sum_gn = 0.0f;
  for (int c = first; c < a.cols; c += step) {
    const auto dy = load<N>(a.dy + base + c), x = load<N>(a.x + base + c), gain = load<N>(a.gain + c);
    for (int i = 0; i < N; ++i) {
      const float g = to_float(dy.at[i]) * to_float(gain.at[i]);
      sum_g += g;
      sum_gn += g * ((to_float(x.at[i]) - mean) * inverse_std);
    }
    store<N>(dys + c, dy);
    store<N>(xs + c, x);
  }
  const float mean_g = a.layernorm ? block_fold<Sum>(sum_g) / n : 0.0f;
  const float mean_gn = block_fold<Sum>(sum_gn) / n;
  for (int c = first; c < a.cols; c += step) {
    const auto dy = load<N>(dys + c), x = load<N>(xs + c), gain = load<N>(a.gain + c);
    Vec<T, N> dx{};
    if (a.add) dx = load<N>(a.dx + base + c);
    for (int i = 0; i < N; ++i) {
      const float g = to_float(dy.at[i]) * to_float(gain.at[i]);
      const float normalised = (to_float(x.at[i]) - mean) * inverse_std;
      dx.at[i] = from_float<T>(to_float(dx.at[i]) + inverse_std * (g - mean_g - normalised * mean_gn));
    }
    store<N>(a.dx + base + c, dx);
  }
}

// The term that a token adds to dgain and, with two sums, to dbias.
template <class T, int Sums>
struct GainGradient {
  static constexpr int kSums = Sums;
  const T *dy, *x;
  const float* stats;
  int cols;

  template <int N>
  __device__ __forceinline__ void add(float (&sums)[Sums][N], int64_t row, int c) const {
    const auto d = load<N>(dy + row * cols + c), v = load<N>(x + row * cols + c);
    const float mean = stats[2 * row], inverse_std = stats[2 * row + 1];
    for (int i = 0; i < N; ++i) {
      sums[0][i] += to_float(d.at[i]) * rounded<T>((to_float(v.at[i]) - mean) * inverse_std);
      if constexpr (Sums == 2) sums[1][i] += to_float(d.at[i]);
    }
  }
};

}  // namespace
}  // namespace cuda

void CudaOps::norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                  const Tensor& gain, const NormSpec& spec, Write write) {
  checks::norm_backward_input(dx, dy, x, stats, gain);
  if (x.elements() == 0) return;
  cuda::by_type(x.dtype, [&]<class T>(T) {
    const cuda::NormBackwardArgs<T> args{dx.ptr<T>(),
                                         dy.ptr<T>(),
                                         x.ptr<T>(),
                                         gain.ptr<T>(),
                                         stats.ptr<float>(),
                                         static_cast<int>(x.cols()),
                                         spec.kind == Norm::layernorm,
                                         write == Write::add};
    cuda::by_width<T>(x.cols(), {dx.data, dy.data, x.data, gain.data}, [&](auto width) {
      constexpr int N = width.value;
      const auto grid = cuda::kept_row_grid("norm_backward_input", x.rows(), x.cols() / N,
                                            2 * static_cast<size_t>(x.cols()) * sizeof(T), device_.facts());
      cuda::launch<cuda::norm_backward_kernel<T, N>>(grid, stream(), args);
    });
  });
}

void CudaOps::norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                                   const Tensor& stats, const NormSpec&, Write write) {
  checks::norm_backward_weight(dgain, dbias, dy, x, stats);
  const cuda::SumTargets out{{dgain.ptr<float>(), dbias ? dbias.ptr<float>() : nullptr}};
  cuda::by_type(x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(x.cols(), {dy.data, x.data}, [&](auto width) {
      const auto sum = [&]<int Sums>(std::integral_constant<int, Sums>) {
        const cuda::GainGradient<T, Sums> term{dy.ptr<T>(), x.ptr<T>(), stats.ptr<float>(), static_cast<int>(x.cols())};
        cuda::column_sums<width.value>(device_, out, term, x.rows(), x.cols(), write);
      };
      dbias ? sum(std::integral_constant<int, 2>{}) : sum(std::integral_constant<int, 1>{});
    });
  });
}

void CudaOps::bias_backward(const Tensor& db, const Tensor& dy, Write write) {
  checks::bias_backward(db, dy);
  cuda::by_type(dy.dtype, [&]<class T>(T) {
    cuda::by_width<T>(dy.cols(), {dy.data}, [&](auto width) {
      const cuda::Elements<T> term{dy.ptr<T>(), static_cast<int>(dy.cols())};
      cuda::column_sums<width.value>(device_, {{db.ptr<float>(), nullptr}}, term, dy.rows(), dy.cols(), write);
    });
  });
}

}  // namespace fp
