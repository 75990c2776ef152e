// Copies, zeroing and casts. Casts move each element once: a block handles 256 x 8 elements, with 16-byte accesses
// where the addresses allow them.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/ops/cuda_ops.h"
#include "ops/checks.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;

template <class To, class From, int N>
__global__ void cast_kernel(To* to, const From* from, int64_t count) {
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (first >= count) return;
  const auto in = load<N>(from + first);
  Vec<To, N> out;
  for (int i = 0; i < N; ++i) out.at[i] = from_float<To>(to_float(in.at[i]));
  store<N>(to + first, out);
}

template <class To, class From>
void cast(const Tensor& dst, const Tensor& src, Stream stream) {
  To* to = dst.ptr<To>();
  const From* from = src.ptr<From>();
  const int64_t n = src.elements();
  constexpr int kFour = 4;  // 16 bytes of the wider type
  const bool wide = widest<float>(n, {to, from}) > 1;
  const auto blocks = [](int64_t elements) {
    return Grid{static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads};
  };
  if (wide)
    launch<cast_kernel<To, From, kFour>>(blocks(n / kFour), stream, to, from, n);
  else
    launch<cast_kernel<To, From, 1>>(blocks(n), stream, to, from, n);
}

}  // namespace
}  // namespace cuda

void CudaOps::copy_in(const Tensor& dst, const void* host) { device_.copy_in(dst.data, host, dst.bytes()); }
void CudaOps::copy_out(void* host, const Tensor& src) { device_.copy_out(host, src.data, src.bytes()); }
void CudaOps::copy(const Tensor& dst, const Tensor& src) {
  checks::copy(dst, src);
  device_.copy(dst.data, src.data, src.bytes());
}
void CudaOps::zero(const Tensor& x) { device_.zero(x.data, x.bytes()); }

void CudaOps::cast(const Tensor& dst, const Tensor& src) {
  checks::cast(dst, src);
  if (src.elements() == 0) return;
  if (dst.dtype == DType::bf16 && src.dtype == DType::f32) return cuda::cast<bf16, float>(dst, src, stream());
  if (dst.dtype == DType::f32 && src.dtype == DType::bf16) return cuda::cast<float, bf16>(dst, src, stream());
  device_.copy(dst.data, src.data, src.bytes());
}

}  // namespace fp
