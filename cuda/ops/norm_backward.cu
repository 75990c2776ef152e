// Backward of LayerNorm and RMSNorm, and the sums over tokens: gradients of gain and bias, and of any layer's bias.
//
// Input: with g = dy * gain and n = (x - mean) / std, dx = (g - mean(g) - n * mean(g n)) / std, means over the row
// (RMSNorm has no mean(g)). A warp handles a row, a block a long one; dy, x and, where it is added to, dx are copied to
// shared memory with all reads in flight at once, and stay there between the sums and the result.
// Weight: dgain[c] = sum over tokens of dy * round(n), dbias[c] = sum of dy (column_sums.h). Each reads dy and x once.
#include "cuda/ops/column_sums.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace cuda {
namespace {

template <class T>
struct NormBackwardArgs {
  T* dx;
  const T *dy, *x, *gain;
  const float* stats;
  int64_t rows;
  int cols;
  bool layernorm, add, keeps_dx;  // in shared memory, where it fits beside dy and x
};

// A thread only accesses its own elements of the row, also in shared memory.
template <class T, int N>
__global__ void norm_backward_kernel(NormBackwardArgs<T> a) {
  FP_DYNAMIC_SHARED(T, kept);
  const int64_t row = kept_row(), base = row * a.cols;
  if (row >= a.rows) return;
  T* const dys = kept + static_cast<int>(threadIdx.y) * (a.keeps_dx ? 3 : 2) * a.cols;
  T *const xs = dys + a.cols, *const dxs = xs + a.cols;
  fetch_row<N>(dys, a.dy + base, a.cols);
  fetch_row<N>(xs, a.x + base, a.cols);
  if (a.keeps_dx) fetch_row<N>(dxs, a.dx + base, a.cols);
  const int first = static_cast<int>(threadIdx.x) * N, step = static_cast<int>(blockDim.x) * N;
  const auto n = static_cast<float>(a.cols);
  const float mean = a.stats[2 * row], inverse_std = a.stats[2 * row + 1];
  wait_for_rows();
  float sum_g = 0.0f, sum_gn = 0.0f;
  for (int c = first; c < a.cols; c += step) {
    const auto dy = load<N>(dys + c), x = load<N>(xs + c), gain = load<N>(a.gain + c);
    for (int i = 0; i < N; ++i) {
      const float g = to_float(dy.at[i]) * to_float(gain.at[i]);
      sum_g += g;
      sum_gn += g * ((to_float(x.at[i]) - mean) * inverse_std);
    }
  }
  const float mean_g = a.layernorm ? row_fold<Sum>(sum_g) / n : 0.0f;
  const float mean_gn = row_fold<Sum>(sum_gn) / n;
  for (int c = first; c < a.cols; c += step) {
    const auto dy = load<N>(dys + c), x = load<N>(xs + c), gain = load<N>(a.gain + c);
    Vec<T, N> dx{};
    if (a.add) dx = load<N>(a.keeps_dx ? dxs + c : a.dx + base + c);
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

void CudaOps::run(const calls::NormBackwardInput& call) {
  if (call.x.elements() == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    const size_t row_bytes = static_cast<size_t>(call.x.cols()) * sizeof(T);
    const cuda::NormBackwardArgs<T> args{call.dx.ptr<T>(),
                                         call.dy.ptr<T>(),
                                         call.x.ptr<T>(),
                                         call.gain.ptr<T>(),
                                         call.stats.ptr<float>(),
                                         call.x.rows(),
                                         static_cast<int>(call.x.cols()),
                                         call.spec.kind == Norm::layernorm,
                                         call.write == Write::add,
                                         call.write == Write::add && cuda::keeps(3 * row_bytes, device_.facts())};
    cuda::by_width<T>(call.x.cols(), {call.dx.data, call.dy.data, call.x.data, call.gain.data}, [&](auto width) {
      constexpr int N = width.value;
      const auto grid = cuda::kept_row_grid("norm_backward_input", call.x.rows(), call.x.cols() / N,
                                            args.keeps_dx ? 3 * row_bytes : 2 * row_bytes, device_.facts());
      cuda::launch<cuda::norm_backward_kernel<T, N>>(grid, stream(), args);
    });
  });
}

void CudaOps::run(const calls::NormBackwardWeight& call) {
  const cuda::SumTargets out{{call.dgain.ptr<float>(), call.dbias ? call.dbias.ptr<float>() : nullptr}};
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.x.cols(), {call.dy.data, call.x.data}, [&](auto width) {
      const auto sum = [&]<int Sums>(std::integral_constant<int, Sums>) {
        const cuda::GainGradient<T, Sums> term{call.dy.ptr<T>(), call.x.ptr<T>(), call.stats.ptr<float>(),
                                               static_cast<int>(call.x.cols())};
        cuda::column_sums<width.value>(device_, out, term, call.x.rows(), call.x.cols(), call.write);
      };
      call.dbias ? sum(std::integral_constant<int, 2>{}) : sum(std::integral_constant<int, 1>{});
    });
  });
}

void CudaOps::run(const calls::BiasBackward& call) {
  cuda::by_type(call.dy.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.dy.cols(), {call.dy.data}, [&](auto width) {
      const cuda::Elements<T> term{call.dy.ptr<T>(), static_cast<int>(call.dy.cols())};
      cuda::column_sums<width.value>(device_, {{call.db.ptr<float>(), nullptr}}, term, call.dy.rows(), call.dy.cols(),
                                     call.write);
    });
  });
}

}  // namespace fp
