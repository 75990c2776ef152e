// Stochastic rounding of f32 to bf16. A thread draws one Philox block for its 8 elements. 4 bytes per element are read,
// 2 written.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/ops/cuda_ops.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256, kEach = 8;

template <bool Wide>
__global__ void round_kernel(bf16* to, const float* from, int64_t count, StochasticRounding r, Philox::Key key) {
  const int64_t eight = int64_t{blockIdx.x} * kThreads + threadIdx.x, first = eight * kEach;
  if (first >= count) return;
  const auto words = rounding_words(r, key, static_cast<uint64_t>(eight));
  if (Wide && first + kEach <= count) {
    const auto low = load<4>(from + first), high = load<4>(from + first + 4);
    Vec<bf16, kEach> out;
    for (unsigned i = 0; i < kEach; ++i) out.at[i] = rounded_up_by(i < 4 ? low.at[i] : high.at[i - 4], words, i);
    store<kEach>(to + first, out);
  } else {
    for (unsigned i = 0; i < kEach && first + i < count; ++i) to[first + i] = rounded_up_by(from[first + i], words, i);
  }
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::RoundStochastically& call) {
  const int64_t count = call.src.elements(), threads = (count + cuda::kEach - 1) / cuda::kEach;
  if (count == 0) return;
  const cuda::Grid grid{static_cast<unsigned>((threads + cuda::kThreads - 1) / cuda::kThreads), cuda::kThreads};
  bf16* to = call.dst.ptr<bf16>();
  const float* from = call.src.ptr<float>();
  if (cuda::widest<float>(4, {to, from}) > 1)
    cuda::launch<cuda::round_kernel<true>>(grid, stream(), to, from, count, call.rounding, rounding_key(call.rounding));
  else
    cuda::launch<cuda::round_kernel<false>>(grid, stream(), to, from, count, call.rounding,
                                            rounding_key(call.rounding));
}

}  // namespace fp
