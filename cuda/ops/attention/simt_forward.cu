// Attention forward in f32, without tensor cores: o = softmax(scale q k^T) v and lse, in one pass.
//
// A block owns 64 queries (head size 256: 32) of one head of one sample, a warp a quarter of them. It streams tiles of
// keys and values and keeps the running maximum and sum of each row (flash_forward.cu explains the scheme). Reads q
// once and k, v once per 64 queries; writes o and lse.
#include "cuda/ops/attention/simt.h"

namespace fp::cuda {
namespace {

template <int D>
struct Rows {
  typename SimtTiles<D>::Result o = {};
  static constexpr int kSlots = SimtTiles<D>::kRowSlots;
  float top[kSlots], sum[kSlots] = {};

  __device__ __forceinline__ Rows() {
    for (float& x : top) x = -INFINITY;
  }

  // Turns scores (base 2) into probabilities relative to the new maximum.
  __device__ __forceinline__ void absorb(typename SimtTiles<D>::Scores& s) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      float highest = top[i];
      for (const float x : s[i]) highest = fmaxf(highest, x);
      highest = warp_fold<Max>(highest, kRowLanes);
      const float base = highest == -INFINITY ? 0.0f : highest, shrink = exp2_approx(top[i] - base);
      top[i] = highest;
      float added = 0;
      for (float& x : s[i]) {
        x = exp2_approx(x - base);
        added += x;
      }
      sum[i] = sum[i] * shrink + warp_fold<Sum>(added, kRowLanes);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) o[i][j / 4][j % 4] *= shrink;
    }
  }
};

template <int D>
__global__ void __launch_bounds__(SimtTiles<D>::kThreads) forward_kernel(const Operands<float> a) {
  using T = SimtTiles<D>;
  const QueryOwner owner(a, T::kOwn);
  const int sample = owner.sample, head = owner.head, first = owner.first;
  const HeadMask mask(a.mask, sample, head);
  const int row0 = warp_id() * T::kWarpRows;  // first row of this warp
  const Queries all = mask.queries(first, T::kOwn), own = mask.queries(first + row0, T::kWarpRows);

  FP_DYNAMIC_SHARED(float, q_tile);
  float* const k_tiles = q_tile + kTile<float, D>(T::kOwn);
  float* const v_tiles = k_tiles + 2 * kTile<float, D>(T::kStream);
  float* const all_weights = v_tiles + 2 * kTile<float, D>(T::kStream);
  float* const weights = all_weights + row0 * T::kWeightRow;
  auto* const kept = reinterpret_cast<uint32_t*>(all_weights + T::kOwn * T::kWeightRow);
  load_tile<D, T::kOwn, T::kThreads>(q_tile, a.q + a.at_query(sample, first, head), a.q_step(), a.mask.queries - first,
                                     a.head_dim, a.aligned);
  const auto issue = [&](int tile, int buffer) {
    const int key = tile * T::kStream, left = a.mask.keys - key, at = kTile<float, D>(buffer * T::kStream);
    const int64_t from = a.at_key(sample, key, owner.kv_head);
    load_tile<D, T::kStream, T::kThreads>(k_tiles + at, a.k + from, a.k_step(), left, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(v_tiles + at, a.v + from, a.k_step(), left, a.head_dim, a.aligned);
    if (a.drops.on())
      draw_kept<T::kOwn, T::kStream, T::kThreads>(kept + buffer * T::kOwn, a.drops, sample, head, all.first,
                                                  a.mask.k_offset + key);
  };
  Rows<D> rows;
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int tile, int buffer) {
    const Visibility seen = mask.visibility(own, tile * T::kStream, T::kStream);
    if (seen == Visibility::none) return;
    typename T::Scores s;
    dot_rows_of_tiles<D>(s, q_tile + kTile<float, D>(row0), k_tiles + kTile<float, D>(buffer * T::kStream));
    for_each(s, [&](float& x, Spot at) {
      const bool visible =
          seen == Visibility::all || sees(mask.query(first + row0 + at.row), mask.key(tile * T::kStream + at.column));
      x = visible ? x * factor : -INFINITY;
    });
    rows.absorb(s);
    if (a.drops.on())
      for_each(s, [&](float& x, Spot at) {
        if (!is_kept<T::kStream>(kept + buffer * T::kOwn, row0 + at.row, at.column)) x = 0;
      });
    put_weights<D>(weights, s);
    add_weighted_rows<D>(rows.o, weights, v_tiles + kTile<float, D>(buffer * T::kStream));
  };
  stream_tiles(
      mask.first_key(all) / T::kStream, (mask.end_key(all) + T::kStream - 1) / T::kStream,
      [&](int tile) { return mask.visibility(all, tile * T::kStream, T::kStream) != Visibility::none; }, issue,
      compute);

  const int count = a.mask.queries - first - row0;
  float factors[T::kRowSlots];
  for (int i = 0; i < T::kRowSlots; ++i) {
    const bool nothing = rows.sum[i] == 0.0f;
    factors[i] = nothing ? 0.0f : a.drops.kept_factor / rows.sum[i];
    if (column_of(0) == 0 && row_of(i) < count)
      a.lse[a.at_row(sample, first + row0 + row_of(i), head)] =
          nothing ? -INFINITY : (rows.top[i] + log2f(rows.sum[i])) * kLn2;
  }
  store_result<D>(a.o + a.at_query(sample, first + row0, head), a.q_step(), count, a.head_dim, a.aligned, rows.o,
                  factors);
}

template <int D>
constexpr size_t shared_bytes(bool drops) {
  using T = SimtTiles<D>;
  constexpr int kFloats = kTile<float, D>(T::kOwn) + 4 * kTile<float, D>(T::kStream) + T::kOwn * T::kWeightRow;
  return (kFloats + (drops ? 2 * T::kOwn : 0)) * sizeof(float);
}

}  // namespace

void simt_forward(const Operands<float>& a, Stream stream) {
  with_simt_head_size(a.head_dim, [&](auto size) {
    using T = SimtTiles<size>;
    launch<forward_kernel<size>>(Grid{QueryOwner::blocks(a, T::kOwn), T::kThreads, shared_bytes<size>(a.drops.on())},
                                 stream, a);
  });
}

size_t simt_forward_shared(int head_dim, bool drops) {
  size_t bytes = 0;
  with_simt_head_size(head_dim, [&](auto size) { bytes = shared_bytes<size>(drops); });
  return bytes;
}

}  // namespace fp::cuda
