// Copies, zeroing and casts. Casts move each element once: a block handles 256 x 8 elements, with 16-byte accesses
// where the addresses allow them.
#include "cuda/device/launch.h"
#include "cuda/device/vector.h"
#include "cuda/ops/cuda_ops.h"

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

void CudaOps::run(const calls::CopyIn& call) { device_.copy_in(call.dst.data, call.host, call.dst.bytes()); }
void CudaOps::run(const calls::CopyOut& call) { device_.copy_out(call.host, call.src.data, call.src.bytes()); }
void CudaOps::run(const calls::Copy& call) { device_.copy(call.dst.data, call.src.data, call.src.bytes()); }
void CudaOps::run(const calls::Zero& call) { device_.zero(call.x.data, call.x.bytes()); }

void CudaOps::run(const calls::Cast& call) {
  if (call.src.elements() == 0) return;
  if (call.dst.dtype == DType::bf16 && call.src.dtype == DType::f32)
    return cuda::cast<bf16, float>(call.dst, call.src, stream());
  if (call.dst.dtype == DType::f32 && call.src.dtype == DType::bf16)
    return cuda::cast<float, bf16>(call.dst, call.src, stream());
  device_.copy(call.dst.data, call.src.data, call.src.bytes());
}

}  // namespace fp
