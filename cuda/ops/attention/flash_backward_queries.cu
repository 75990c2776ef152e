// Attention backward, bf16: gradient of queries. With p recomputed from lse and ds = p * (d_o v^T - delta):
// dq = scale * ds k.
//
// A block owns 128 queries (head size 256: 64) of one head of one sample, a warp 16 of them, and streams tiles of k and
// v, double-buffered. ds is rounded to bf16. Reads q and d_o once, k and v once per 128 queries; writes dq.
#include "cuda/ops/attention/flash.h"

namespace fp::cuda {
namespace {

template <int D>
struct Tiles : BackwardTiles<D> {
  using BackwardTiles<D>::kOwn, BackwardTiles<D>::kStream;
  static constexpr int kKept = 2 * kOwn * kKeptWords<kStream>;
  static constexpr size_t shared_bytes(bool drops) {
    return BackwardTiles<D>::kElements * sizeof(bf16) + (drops ? kKept * sizeof(uint32_t) : 0);
  }
};

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) queries_kernel(const Operands<bf16> a) {
  using T = Tiles<D>;
  const QueryOwner owner(a, T::kOwn);
  const int sample = owner.sample, head = owner.head, first = owner.first, own = first + warp_id() * 16;
  const HeadMask mask(a.mask, sample, head);
  const Queries all = mask.queries(first, T::kOwn), mine = mask.queries(own, 16);

  FP_DYNAMIC_SHARED(bf16, q_tile);
  bf16* const do_tile = q_tile + kTile<bf16, D>(T::kOwn);
  bf16* const k_tiles = do_tile + kTile<bf16, D>(T::kOwn);
  bf16* const v_tiles = k_tiles + 2 * kTile<bf16, D>(T::kStream);
  auto* const kept = reinterpret_cast<uint32_t*>(v_tiles + 2 * kTile<bf16, D>(T::kStream));
  const int my_tile = kTile<bf16, D>(warp_id() * 16), left = a.mask.queries - first;
  const int64_t from = a.at_query(sample, first, head);
  load_tile<D, T::kOwn, T::kThreads>(q_tile, a.q + from, a.q_step(), left, a.head_dim, a.aligned);
  load_tile<D, T::kOwn, T::kThreads>(do_tile, a.d_o + from, a.q_step(), left, a.head_dim, a.aligned);
  float lse[2] = {}, delta[2] = {};  // for this lane's two rows
  for (int half = 0; half < 2; ++half) {
    const int query = own + lane_row() + 8 * half;
    if (query >= a.mask.queries) continue;
    lse[half] = base2(a.lse[a.at_row(sample, query, head)]);
    delta[half] = a.delta[a.at_row(sample, query, head)];
  }

  const auto issue = [&](int tile, int buffer) {
    const int key = tile * T::kStream, rows = a.mask.keys - key, at = kTile<bf16, D>(buffer * T::kStream);
    const int64_t offset = a.at_key(sample, key, owner.kv_head);
    load_tile<D, T::kStream, T::kThreads>(k_tiles + at, a.k + offset, a.k_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(v_tiles + at, a.v + offset, a.k_step(), rows, a.head_dim, a.aligned);
    if (a.drops.on())
      draw_kept<T::kOwn, T::kStream, T::kThreads>(kept + buffer * T::kKept / 2, a.drops, sample, head, all.first,
                                                  a.mask.k_offset + key);
  };
  float dq[1][D / 8][4] = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int tile, int buffer) {
    const Visibility seen = mask.visibility(mine, tile * T::kStream, T::kStream);
    if (seen == Visibility::none) return;
    const bf16* const k = k_tiles + kTile<bf16, D>(buffer * T::kStream);
    float p[1][T::kStream / 8][4] = {}, ds[1][T::kStream / 8][4] = {};
    add_product_transposed<D>(p, q_tile + my_tile, k);
    for_each(p, [&](float& x, Spot) { x *= factor; });
    if (seen == Visibility::some) hide<true>(p, mask, own, tile * T::kStream);
    add_product_transposed<D>(ds, do_tile + my_tile, v_tiles + kTile<bf16, D>(buffer * T::kStream));
    for_each_pair(ds, p, [&](float& x, float& score, Spot at) {
      const bool keep =
          !a.drops.on() || is_kept<T::kStream>(kept + buffer * T::kKept / 2, own - first + at.row, at.column);
      const float prob = exp2_approx(score - lse[at.slot]);
      x = prob * ((keep ? x * a.drops.kept_factor : 0.0f) - delta[at.slot]);
    });
    add_product<D>(dq, ds, k);
  };
  stream_tiles(
      mask.first_key(all) / T::kStream, tiles_of(mask.end_key(all), T::kStream),
      [&](int tile) { return mask.visibility(all, tile * T::kStream, T::kStream) != Visibility::none; }, issue,
      compute);

  for_each(dq, [&](float& x, Spot) { x *= a.scale; });
  bf16* const to = a.dq + a.at_query(sample, own, head);
  if (a.add_dq) add_rows(dq, to, a.q_step(), a.mask.queries - own, a.head_dim);
  store_rows<D>(to, a.q_step(), a.mask.queries - own, a.head_dim, a.aligned, dq[0], q_tile + my_tile);
}

}  // namespace

void flash_backward_queries(const Operands<bf16>& a, Stream stream) {
  with_head_size(a.head_dim, [&](auto size) {
    using T = Tiles<size>;
    launch<queries_kernel<size>>(Grid{QueryOwner::blocks(a, T::kOwn), T::kThreads, T::shared_bytes(a.drops.on())},
                                 stream, a);
  });
}

size_t flash_queries_shared(int head_dim, bool drops) {
  size_t bytes = 0;
  with_head_size(head_dim, [&](auto size) { bytes = Tiles<size>::shared_bytes(drops); });
  return bytes;
}

}  // namespace fp::cuda
