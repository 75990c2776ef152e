// Addition, accumulation, scaled addition and dropout.
//
// add: y = a + b, 16 bytes per thread; reads 2 tensors, writes 1.
// accumulate: dst += src of perhaps another type, 16 bytes of the wider per thread; reads 2 tensors, writes 1.
// scaled_add: the same with factors; reads 1 or 2 tensors, writes 1.
// dropout: y[b,t,c] = x[b,t,c] * factor. One block per token; a thread handles 4 or 8 adjacent elements at a time with
// one or two Philox calls of 4 words each. Reads 1 tensor, writes 1; integer instructions limit it as much as memory.
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int N>
__global__ void add_kernel(T* y, const T* a, const T* b, int64_t count) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (at >= count) return;
  Vec<T, N> left = load<N>(a + at);
  const Vec<T, N> right = load<N>(b + at);
  for (int i = 0; i < N; ++i) left.at[i] = from_float<T>(to_float(left.at[i]) + to_float(right.at[i]));
  store<N>(y + at, left);
}

template <class To, class From, int N>
__global__ void accumulate_kernel(To* to, const From* from, int64_t count) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (at >= count) return;
  Vec<To, N> sum = load<N>(to + at);
  const Vec<From, N> right = load<N>(from + at);
  for (int i = 0; i < N; ++i) sum.at[i] = from_float<To>(to_float(sum.at[i]) + to_float(right.at[i]));
  store<N>(to + at, sum);
}

template <class To, class From, int N>
__global__ void scaled_add_kernel(To* y, const From* a, const From* b, float a_scale, float b_scale, int64_t count) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (at >= count) return;
  const Vec<From, N> left = load<N>(a + at);
  Vec<From, N> right{};
  if (b != nullptr) right = load<N>(b + at);
  Vec<To, N> sum;
  for (int i = 0; i < N; ++i) {
    const float scaled = a_scale * to_float(left.at[i]);
    sum.at[i] = from_float<To>(b == nullptr ? scaled : scaled + b_scale * to_float(right.at[i]));
  }
  store<N>(y + at, sum);
}

// Elements with the words of one or two counters.
template <int N>
constexpr int kDrawn = N < 4 ? 4 : N;

struct DropoutArgs {
  Philox::Key key;
  uint32_t least_kept;  // random word
  float kept;           // kept elements are multiplied by it
  uint32_t first_token, tokens;
};

// Returns the least random word that is not dropped, where one exists: Philox::uniform() grows with its 24 bits.
uint32_t least_kept(float p) {
  uint32_t dropped = 0;
  for (uint32_t step = 1u << 23; step > 0; step /= 2)
    if (Philox::uniform((dropped + step - 1) << 8) < p) dropped += step;
  return dropped << 8;
}

template <class T, int N>
__global__ void dropout_kernel(T* y, const T* x, const int32_t* sample_ids, int cols, DropoutArgs d) {
  const uint32_t b = blockIdx.x / d.tokens, t = blockIdx.x % d.tokens;
  const auto low = static_cast<uint32_t>(sample_ids[2 * b]), high = static_cast<uint32_t>(sample_ids[2 * b + 1]);
  const int64_t row = int64_t{blockIdx.x} * cols;
  const int step = static_cast<int>(blockDim.x) * kDrawn<N>;
  for (int c = static_cast<int>(threadIdx.x) * kDrawn<N>; c < cols; c += step) {
    float factor[kDrawn<N>];
#pragma unroll
    for (int i = 0; i < kDrawn<N>; i += 4) {
      const auto words = Philox::block({static_cast<uint32_t>(c + i) / 4, d.first_token + t, low, high}, d.key);
      for (int j = 0; j < 4; ++j) factor[i + j] = words[j] < d.least_kept ? 0.0f : d.kept;
    }
#pragma unroll
    for (int i = 0; i < kDrawn<N>; i += N) {
      if (c + i >= cols) break;
      Vec<T, N> v = load<N>(x + row + c + i);
      for (int j = 0; j < N; ++j) v.at[j] = from_float<T>(to_float(v.at[j]) * factor[i + j]);
      store<N>(y + row + c + i, v);
    }
  }
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::Add& call) {
  const int64_t n = call.y.elements();
  if (n == 0) return;
  cuda::by_type(call.y.dtype, [&]<class T>(T) {
    cuda::by_width<T>(n, {call.y.data, call.a.data, call.b.data}, [&](auto width) {
      constexpr int N = width.value;
      const int64_t blocks = (n / N + cuda::kThreads - 1) / cuda::kThreads;
      cuda::launch<cuda::add_kernel<T, N>>({static_cast<unsigned>(blocks), cuda::kThreads}, stream(), call.y.ptr<T>(),
                                           call.a.ptr<T>(), call.b.ptr<T>(), n);
    });
  });
}

void CudaOps::run(const calls::Accumulate& call) {
  const int64_t n = call.dst.elements();
  if (n == 0) return;
  cuda::by_type(call.dst.dtype, [&]<class To>(To) {
    cuda::by_type(call.src.dtype, [&]<class From>(From) {
      // As many elements as 16 bytes of f32, unless both are bf16.
      using Wider = std::conditional_t<std::is_same_v<To, From>, To, float>;
      cuda::by_width<Wider>(n, {call.dst.data, call.src.data}, [&](auto width) {
        constexpr int N = width.value;
        const int64_t blocks = (n / N + cuda::kThreads - 1) / cuda::kThreads;
        cuda::launch<cuda::accumulate_kernel<To, From, N>>({static_cast<unsigned>(blocks), cuda::kThreads}, stream(),
                                                           call.dst.ptr<To>(), call.src.ptr<From>(), n);
      });
    });
  });
}

void CudaOps::run(const calls::ScaledAdd& call) {
  const int64_t n = call.y.elements();
  if (n == 0) return;
  cuda::by_type(call.y.dtype, [&]<class To>(To) {
    cuda::by_type(call.a.dtype, [&]<class From>(From) {
      using Wider = std::conditional_t<std::is_same_v<To, From>, To, float>;
      cuda::by_width<Wider>(n, {call.y.data, call.a.data, call.b.data}, [&](auto width) {
        constexpr int N = width.value;
        const int64_t blocks = (n / N + cuda::kThreads - 1) / cuda::kThreads;
        const From* b = call.b ? call.b.ptr<From>() : nullptr;
        cuda::launch<cuda::scaled_add_kernel<To, From, N>>(
            {static_cast<unsigned>(blocks), cuda::kThreads}, stream(), call.y.ptr<To>(),
            static_cast<const From*>(call.a.ptr<From>()), b, static_cast<float>(call.a_scale),
            static_cast<float>(call.b_scale), n);
      });
    });
  });
}

void CudaOps::run(const calls::Dropout& call) {
  if (call.x.elements() == 0) return;
  if (call.stream.p == 0.0) {
    if (call.y.data != call.x.data) run(calls::Copy{call.y, call.x});
    return;
  }
  const auto p = static_cast<float>(call.stream.p);
  const float kept = p < 1.0f ? static_cast<float>(1.0 / (1.0 - call.stream.p)) : 0.0f;
  const cuda::DropoutArgs d{dropout_key(call.stream), cuda::least_kept(p), kept,
                            static_cast<uint32_t>(call.first_token), static_cast<uint32_t>(call.x.shape[1])};
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(call.x.cols(), {call.y.data, call.x.data}, [&](auto width) {
      constexpr int N = width.value;
      const int64_t pairs = (call.x.cols() + 2 * cuda::kDrawn<N> - 1) / (2 * cuda::kDrawn<N>);
      const cuda::Grid grid{static_cast<unsigned>(call.x.rows()), cuda::threads_for(pairs, cuda::kThreads)};
      cuda::launch<cuda::dropout_kernel<T, N>>(grid, stream(), call.y.ptr<T>(), call.x.ptr<T>(),
                                               call.sample_ids.ptr<int32_t>(), static_cast<int>(call.x.cols()), d);
    });
  });
}

}  // namespace fp
