// Copies the columns of a fused QKV projection [M, (H+2K)d] to q [M,H,d], k and v [M,K,d] and back, and rotates q and
// k.
//
// A block handles a token or a range of its columns; a thread handles N adjacent elements of a head and, where heads
// are rotated, the N elements of the other half with which they are rotated:
//   low' = low cos - high sin, high' = high cos + low sin; backward with -sin.
// Everything is read once and written once; the heads of a token share its row of the tables through the cache. Rope
// alone rotates heads [M,H,d] in the same way, perhaps in place.
#include "cuda/ops/cuda_ops.h"
#include "cuda/ops/rows.h"

namespace fp {
namespace cuda {
namespace {

struct Rotation {
  const float *cos = nullptr, *sin = nullptr;
  const int32_t* positions = nullptr;  // position of each token
  int half = 0;                        // of the head size
};

Rotation rotation_of(const Rope& rope, const Tensor& positions) {
  if (!rope.cos) return {};
  return {rope.cos.ptr<float>(), rope.sin.ptr<float>(), positions.ptr<int32_t>(), static_cast<int>(rope.cos.cols())};
}

template <class T>
struct QkvArgs {
  T *fused, *q, *k, *v;
  Rotation rotation;
  int heads, kv_heads, head_dim;
  bool grouped;
};

// The tensor and head to which a head position in the fused columns belongs.
struct HeadPlace {
  int part;  // 0: q, 1: k, 2: v
  int head;
};

template <class T>
__device__ __forceinline__ HeadPlace head_at(const QkvArgs<T>& a, int place) {
  if (a.grouped) {
    const int group = a.heads / a.kv_heads, kv = place / (group + 2), within = place % (group + 2);
    return within < group ? HeadPlace{0, kv * group + within} : HeadPlace{within - group + 1, kv};
  }
  if (place < a.heads) return {0, place};
  return place < a.heads + a.kv_heads ? HeadPlace{1, place - a.heads} : HeadPlace{2, place - a.heads - a.kv_heads};
}

template <bool Backward, class T, int N>
__device__ __forceinline__ void rotate(Vec<T, N>& low, Vec<T, N>& high, const Rotation& a, int64_t token, int i) {
  const int64_t at = int64_t{a.positions[token]} * a.half + i;
  float cos[N], sin[N];
  load_floats(cos, a.cos + at);
  load_floats(sin, a.sin + at);
  for (int j = 0; j < N; ++j) {
    const float x = to_float(low.at[j]), y = to_float(high.at[j]), s = Backward ? -sin[j] : sin[j];
    low.at[j] = from_float<T>(x * cos[j] - y * s);
    high.at[j] = from_float<T>(y * cos[j] + x * s);
  }
}

template <class T, int N, bool Backward, bool Rotated>
__global__ void qkv_kernel(QkvArgs<T> a) {
  const int places = a.heads + 2 * a.kv_heads, span = Rotated ? a.head_dim / 2 : a.head_dim, per_head = span / N;
  const int item = row_item();
  if (item >= places * per_head) return;
  const int place = item / per_head, i = item % per_head * N;
  const HeadPlace at = head_at(a, place);
  const int64_t token = blockIdx.x;
  T* const fused = a.fused + (token * places + place) * a.head_dim + i;
  T* const own = (at.part == 0   ? a.q + token * a.heads * a.head_dim
                  : at.part == 1 ? a.k + token * a.kv_heads * a.head_dim
                                 : a.v + token * a.kv_heads * a.head_dim) +
                 int64_t{at.head} * a.head_dim + i;
  T *const to = Backward ? fused : own, *const from = Backward ? own : fused;
  Vec<T, N> low = load<N>(from);
  if constexpr (Rotated) {
    Vec<T, N> high = load<N>(from + span);
    if (at.part < 2) rotate<Backward>(low, high, a.rotation, token, i);
    store<N>(to + span, high);
  }
  store<N>(to, low);
}

template <class T, int N, bool Back>
__global__ void rope_kernel(T* y, const T* x, int heads, Rotation rotation) {
  const int per_head = rotation.half / N, item = row_item();
  if (item >= heads * per_head) return;
  const int64_t token = blockIdx.x;
  const int i = item % per_head * N;
  const int64_t at = (token * heads + item / per_head) * 2 * rotation.half + i;
  Vec<T, N> low = load<N>(x + at), high = load<N>(x + at + rotation.half);
  rotate<Back>(low, high, rotation, token, i);
  store<N>(y + at, low);
  store<N>(y + at + rotation.half, high);
}

template <bool Backward>
void move_heads(const Tensor& fused, const Tensor& q, const Tensor& k, const Tensor& v, const HeadLayout& layout,
                const Rope& rope, const Tensor& positions, Stream stream) {
  if (fused.elements() == 0) return;
  by_type(fused.dtype, [&]<class T>(T) {
    const bool rotated = static_cast<bool>(rope.cos);
    const QkvArgs<T> args{fused.ptr<T>(),
                          q.ptr<T>(),
                          k.ptr<T>(),
                          v.ptr<T>(),
                          rotation_of(rope, positions),
                          static_cast<int>(layout.heads),
                          static_cast<int>(layout.kv_heads),
                          static_cast<int>(layout.head_dim),
                          layout.grouped};
    const int64_t span = rotated ? layout.head_dim / 2 : layout.head_dim;
    by_width<T>(span, {fused.data, q.data, k.data, v.data, rope.cos.data, rope.sin.data}, [&](auto width) {
      constexpr int N = width.value;
      const Grid grid = row_grid(fused.rows(), (layout.heads + 2 * layout.kv_heads) * (span / N));
      rotated ? launch<qkv_kernel<T, N, Backward, true>>(grid, stream, args)
              : launch<qkv_kernel<T, N, Backward, false>>(grid, stream, args);
    });
  });
}

}  // namespace
}  // namespace cuda

void CudaOps::run(const calls::SplitQkv& call) {
  cuda::move_heads<false>(call.qkv, call.q, call.k, call.v, call.layout, call.rope, call.positions, stream());
}

void CudaOps::run(const calls::SplitQkvBackward& call) {
  cuda::move_heads<true>(call.dqkv, call.dq, call.dk, call.dv, call.layout, call.rope, call.positions, stream());
}

void CudaOps::run(const calls::Rope& call) {
  if (call.x.elements() == 0) return;
  const auto heads = static_cast<int>(call.x.shape[1]);
  const cuda::Rotation rotation = cuda::rotation_of(call.rope, call.positions);
  cuda::by_type(call.x.dtype, [&]<class T>(T) {
    cuda::by_width<T>(rotation.half, {call.y.data, call.x.data, rotation.cos, rotation.sin}, [&](auto width) {
      constexpr int N = width.value;
      const cuda::Grid grid = cuda::row_grid(call.x.shape[0], int64_t{heads} * (rotation.half / N));
      call.back ? cuda::launch<cuda::rope_kernel<T, N, true>>(grid, stream(), call.y.ptr<T>(), call.x.ptr<T>(), heads,
                                                              rotation)
                : cuda::launch<cuda::rope_kernel<T, N, false>>(grid, stream(), call.y.ptr<T>(), call.x.ptr<T>(), heads,
                                                               rotation);
    });
  });
}

}  // namespace fp
