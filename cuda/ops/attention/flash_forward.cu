// Attention forward, bf16, after Dao, "FlashAttention-2" (2023): o = softmax(scale q k^T) v and lse, in one pass.
//
// A block owns 128 queries of one head of one sample; its warps own 16 or 32 of them each. It streams tiles of keys and
// values through shared memory, double-buffered, and skips tiles that none of its queries sees. Per tile a warp
// computes its scores in registers, updates the running maximum and sum of every row (in base 2), rescales its partial
// o and adds p v; p is rounded to bf16 there, the sum is not. Reads q once and k, v once per 128 queries; writes o,
// lse.
#include "cuda/ops/attention/flash.h"

namespace fp::cuda {
namespace {

template <int D>
struct Tiles {
  static constexpr int kRowTiles = D <= 128 ? 2 : 1;  // tiles of 16 queries per warp
  static constexpr int kQueries = 128, kWarps = kQueries / (16 * kRowTiles), kThreads = kWarps * kWarp;
  static constexpr int kKeys = D <= 128 ? 64 : 32;
  static constexpr int kElements = kTile<bf16, D>(kQueries) + 4 * kTile<bf16, D>(kKeys);
  static constexpr int kKept = 2 * kQueries * kKeptWords<kKeys>;
  static constexpr size_t shared_bytes(bool drops) {
    return kElements * sizeof(bf16) + (drops ? kKept * sizeof(uint32_t) : 0);
  }
};

// A warp's running results for its rows.
template <int D, int M>
struct Rows {
  float o[M][D / 8][4] = {};
  float top[M][2], sum[M][2];  // maximum of the scores; this lane's share of the sum of 2^(score - top)

  __device__ __forceinline__ Rows() {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) top[m][half] = -INFINITY, sum[m][half] = 0;
  }

  // Turns scores (base 2) into probabilities relative to the new maximum.
  template <int N>
  __device__ __forceinline__ void absorb(float (&s)[M][N][4]) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float highest = top[m][half];
#pragma unroll
        for (int n = 0; n < N; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        highest = warp_fold<Max>(highest, 4);
        const float base = highest == -INFINITY ? 0.0f : highest;
        const float shrink = exp2_approx(top[m][half] - base);
        top[m][half] = highest;
        float added = 0;
#pragma unroll
        for (int i = 0; i < 2 * N; ++i) {
          float& x = s[m][i / 2][2 * half + i % 2];
          x = exp2_approx(x - base);
          added += x;
        }
        sum[m][half] = sum[m][half] * shrink + added;
#pragma unroll
        for (int i = 0; i < D / 4; ++i) o[m][i / 2][2 * half + i % 2] *= shrink;
      }
  }

  // Divides by the sums, and writes lse[i] for the first `count` rows i of the warp.
  __device__ __forceinline__ void finish(float* lse, int count, float kept_factor) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + lane_row();
        const float all = warp_fold<Sum>(sum[m][half], 4);
        const bool nothing = all == 0.0f;
        const float factor = nothing ? 0.0f : kept_factor / all;
        if (lane_column() == 0 && row < count) lse[row] = nothing ? -INFINITY : (top[m][half] + log2f(all)) * kLn2;
#pragma unroll
        for (int i = 0; i < D / 4; ++i) o[m][i / 2][2 * half + i % 2] *= factor;
      }
  }
};

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) forward_kernel(const Operands<bf16> a) {
  using T = Tiles<D>;
  constexpr int kMine = 16 * T::kRowTiles;
  const QueryOwner owner(a, T::kQueries);
  const int sample = owner.sample, head = owner.head, first = owner.first;
  const int mine = first + warp_id() * kMine;
  const HeadMask mask(a.mask, sample, head);
  const Queries all = mask.queries(first, T::kQueries), own = mask.queries(mine, kMine);

  FP_DYNAMIC_SHARED(bf16, q_tile);
  bf16* const k_tiles = q_tile + kTile<bf16, D>(T::kQueries);
  bf16* const v_tiles = k_tiles + 2 * kTile<bf16, D>(T::kKeys);
  auto* const kept = reinterpret_cast<uint32_t*>(v_tiles + 2 * kTile<bf16, D>(T::kKeys));
  bf16* const my_q = q_tile + kTile<bf16, D>(warp_id() * kMine);
  load_tile<D, T::kQueries, T::kThreads>(q_tile, a.q + a.at_query(sample, first, head), a.q_step(),
                                         a.mask.queries - first, a.head_dim, a.aligned);
  const auto issue = [&](int tile, int buffer) {
    const int key = tile * T::kKeys, left = a.mask.keys - key, at = kTile<bf16, D>(buffer * T::kKeys);
    const int64_t from = a.at_key(sample, key, owner.kv_head);
    load_tile<D, T::kKeys, T::kThreads>(k_tiles + at, a.k + from, a.k_step(), left, a.head_dim, a.aligned);
    load_tile<D, T::kKeys, T::kThreads>(v_tiles + at, a.v + from, a.k_step(), left, a.head_dim, a.aligned);
    if (a.drops.on())
      draw_kept<T::kQueries, T::kKeys, T::kThreads>(kept + buffer * T::kKept / 2, a.drops, sample, head, all.first,
                                                    a.mask.k_offset + key);
  };
  Rows<D, T::kRowTiles> rows;
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int tile, int buffer) {
    const Visibility seen = mask.visibility(own, tile * T::kKeys, T::kKeys);
    if (seen == Visibility::none) return;
    float s[T::kRowTiles][T::kKeys / 8][4] = {};
    add_product_transposed<D>(s, my_q, k_tiles + kTile<bf16, D>(buffer * T::kKeys));
    for_each(s, [&](float& x, Spot) { x *= factor; });
    if (seen == Visibility::some) hide<true>(s, mask, mine, tile * T::kKeys);
    rows.absorb(s);
    if (a.drops.on())
      for_each(s, [&](float& x, Spot at) {
        if (!is_kept<T::kKeys>(kept + buffer * T::kKept / 2, mine - first + at.row, at.column)) x = 0;
      });
    add_product<D>(rows.o, s, v_tiles + kTile<bf16, D>(buffer * T::kKeys));
  };
  stream_tiles(
      mask.first_key(all) / T::kKeys, tiles_of(mask.end_key(all), T::kKeys),
      [&](int tile) { return mask.visibility(all, tile * T::kKeys, T::kKeys) != Visibility::none; }, issue, compute);

  const int count = a.mask.queries - mine;
  rows.finish(a.lse + a.at_row(sample, mine, head), count, a.drops.kept_factor);
#pragma unroll
  for (int m = 0; m < T::kRowTiles; ++m)
    store_rows<D>(a.o + a.at_query(sample, mine + 16 * m, head), a.q_step(), count - 16 * m, a.head_dim, a.aligned,
                  rows.o[m], my_q + kTile<bf16, D>(16 * m));
}

}  // namespace

void flash_forward(const Operands<bf16>& a, Stream stream) {
  with_head_size(a.head_dim, [&](auto size) {
    using T = Tiles<size>;
    launch<forward_kernel<size>>(Grid{QueryOwner::blocks(a, T::kQueries), T::kThreads, T::shared_bytes(a.drops.on())},
                                 stream, a);
  });
}

size_t flash_forward_shared(int head_dim, bool drops) {
  size_t bytes = 0;
  with_head_size(head_dim, [&](auto size) { bytes = Tiles<size>::shared_bytes(drops); });
  return bytes;
}

}  // namespace fp::cuda
