// gelu, swiglu and gegelu, forward and backward, as ops.h defines them: y[m,c] of x[m,c] (gelu), of x[m,c] and x[m,f+c]
// (swiglu), of x[m,2c] and x[m,2c+1] (gegelu).
//
// A thread computes N neighbouring outputs of a row, 16 bytes of each operand. Every operand is read or written once.
// The tanh form of gelu is x * sigmoid(2u): 0.5 (1 + tanh u) = sigmoid(2u).
#include "cuda/device/math.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = kGeluLinear * 0.044715f;
constexpr float kGegeluSlope = 1.702f;

// The two arguments of one output (gelu has one), or their gradients.
struct Pair {
  float a, b;
};

__device__ __forceinline__ float sigmoid(float x) { return reciprocal_approx(1.0f + expf(-x)); }

// Only finite values are clamped, infinities pass. limit = 0: no limit.
__device__ __forceinline__ bool above(float x, float limit) {
  return limit > 0.0f && x > limit && x <= 0x1.fffffep127f;
}

template <Activation Kind>
__device__ __forceinline__ float activated(Pair x, float limit) {
  if constexpr (Kind == Activation::gelu) return x.a * sigmoid(x.a * (kGeluLinear + kGeluCubic * (x.a * x.a)));
  if constexpr (Kind == Activation::swiglu) return x.a * sigmoid(x.a) * x.b;
  if (above(x.a, limit)) x.a = limit;
  if (above(fabsf(x.b), limit)) x.b = copysignf(limit, x.b);
  return x.a * sigmoid(kGegeluSlope * x.a) * (x.b + 1.0f);
}

template <Activation Kind>
__device__ __forceinline__ Pair derivatives(Pair x, float limit) {
  if constexpr (Kind == Activation::gelu) {
    const float square = x.a * x.a, s = sigmoid(x.a * (kGeluLinear + kGeluCubic * square)), bend = s * (1.0f - s);
    // Where the sigmoid is flat, the polynomial may be infinite.
    return {bend > 0.0f ? s + x.a * bend * (kGeluLinear + 3.0f * kGeluCubic * square) : s, 0.0f};
  }
  if constexpr (Kind == Activation::swiglu) {
    const float s = sigmoid(x.a);
    return {s * (1.0f + x.a * (1.0f - s)) * x.b, x.a * s};
  }
  const bool a_cut = above(x.a, limit), b_cut = above(fabsf(x.b), limit);
  if (a_cut) x.a = limit;
  if (b_cut) x.b = copysignf(limit, x.b);
  const float s = sigmoid(kGegeluSlope * x.a);
  return {a_cut ? 0.0f : s * (1.0f + kGegeluSlope * x.a * (1.0f - s)) * (x.b + 1.0f), b_cut ? 0.0f : x.a * s};
}

// The arguments of N outputs from column c on: one or two vectors of a row of the input.
template <Activation Kind, class T, int N>
struct Arguments {
  Vec<T, N> first, second;

  static __device__ __forceinline__ int64_t place(int c) { return Kind == Activation::gegelu ? 2 * c : c; }
  static __device__ __forceinline__ int64_t other(int c, int cols) {
    return Kind == Activation::gegelu ? 2 * c + N : cols + c;
  }

  __device__ __forceinline__ void read(const T* row, int c, int cols) {
    first = load<N>(row + place(c));
    if constexpr (Kind != Activation::gelu) second = load<N>(row + other(c, cols));
  }
  __device__ __forceinline__ void write(T* row, int c, int cols) const {
    store<N>(row + place(c), first);
    if constexpr (Kind != Activation::gelu) store<N>(row + other(c, cols), second);
  }
  // gegelu: element i of the 2N that first and second hold together.
  __device__ __forceinline__ T& mixed(int i) { return i < N ? first.at[i] : second.at[i - N]; }
  __device__ __forceinline__ Pair get(int i) {
    if constexpr (Kind == Activation::gelu) return {to_float(first.at[i]), 0.0f};
    if constexpr (Kind == Activation::swiglu) return {to_float(first.at[i]), to_float(second.at[i])};
    return {to_float(mixed(2 * i)), to_float(mixed(2 * i + 1))};
  }
  __device__ __forceinline__ void set(int i, Pair v) {
    (Kind == Activation::gegelu ? mixed(2 * i) : first.at[i]) = from_float<T>(v.a);
    if constexpr (Kind == Activation::swiglu) second.at[i] = from_float<T>(v.b);
    if constexpr (Kind == Activation::gegelu) mixed(2 * i + 1) = from_float<T>(v.b);
  }
};

template <Activation Kind, class T, int N>
__global__ void activation_kernel(T* y, const T* x, int cols, float limit) {
  const int c = row_item() * N;
  if (c >= cols) return;
  constexpr int kInputs = Kind == Activation::gelu ? 1 : 2;
  Arguments<Kind, T, N> in;
  in.read(x + int64_t{blockIdx.x} * cols * kInputs, c, cols);
  Vec<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out.at[i] = from_float<T>(activated<Kind>(in.get(i), limit));
  store<N>(y + int64_t{blockIdx.x} * cols + c, out);
}

template <Activation Kind, class T, int N>
__global__ void activation_backward_kernel(T* dx, const T* dy, const T* x, int cols, float limit) {
  const int c = row_item() * N;
  if (c >= cols) return;
  constexpr int kInputs = Kind == Activation::gelu ? 1 : 2;
  const int64_t row = int64_t{blockIdx.x} * cols;
  Arguments<Kind, T, N> in;
  in.read(x + row * kInputs, c, cols);
  const auto d = load<N>(dy + row + c);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const Pair slope = derivatives<Kind>(in.get(i), limit);
    in.set(i, {to_float(d.at[i]) * slope.a, to_float(d.at[i]) * slope.b});
  }
  in.write(dx + row * kInputs, c, cols);
}

// Calls f(std::integral_constant<Activation, kind>).
template <class F>
void by_kind(Activation kind, F&& f) {
  if (kind == Activation::gelu) f(std::integral_constant<Activation, Activation::gelu>{});
  if (kind == Activation::swiglu) f(std::integral_constant<Activation, Activation::swiglu>{});
  if (kind == Activation::gegelu) f(std::integral_constant<Activation, Activation::gegelu>{});
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Activation& call) {
  if (call.y.elements() == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.y.cols(), {call.y.data, call.x.data}, [&](auto width) {
      cuda::by_kind(call.spec.kind, [&](auto kind) {
        cuda::launch<cuda::activation_kernel<kind.value, T, width.value>>(
            cuda::row_grid(call.y.rows(), call.y.cols() / width.value), stream(), call.y.ptr<T>(), call.x.ptr<T>(),
            static_cast<int>(call.y.cols()), static_cast<float>(call.spec.limit));
      });
    });
  });
}

void CudaOps::run(const calls::ActivationBackward& call) {
  if (call.dy.elements() == 0) return;
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.dy.cols(), {call.dx.data, call.dy.data, call.x.data}, [&](auto width) {
      cuda::by_kind(call.spec.kind, [&](auto kind) {
        cuda::launch<cuda::activation_backward_kernel<kind.value, T, width.value>>(
            cuda::row_grid(call.dy.rows(), call.dy.cols() / width.value), stream(), call.dx.ptr<T>(), call.dy.ptr<T>(),
            call.x.ptr<T>(), static_cast<int>(call.dy.cols()), static_cast<float>(call.spec.limit));
      });
    });
  });
}

}  // namespace fp
