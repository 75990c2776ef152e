// Attention backward, bf16: gradients of keys and values. With p recomputed from lse and ds = p * (dp - delta), where
// dp = d_o v^T:   dv = p^T d_o,   dk = scale * ds^T q,   summed over all queries of all heads that share the keys.
//
// A block owns 128 keys (head size 256: 64) of one kv head of one sample, a warp 16 of them, and streams tiles of q and
// d_o with lse and delta, double-buffered. Scores are computed transposed, a row for each key: p^T and ds^T are then
// the left operands of their products without leaving the registers, where they are rounded to bf16. The sums dk and dv
// of 256 columns would not fit there: two blocks then compute the same scores, each for half of the columns. Every sum
// has one owner and a fixed order. Reads k and v once, q and d_o once per 128 keys; writes dk, dv.
#include "cuda/ops/attention/flash.h"
#include "cuda/ops/attention/query_visits.h"

namespace fp::cuda {
namespace {

template <int D>
struct Tiles : BackwardTiles<D> {
  using BackwardTiles<D>::kOwn, BackwardTiles<D>::kStream;
  static constexpr int kColumns = D <= 128 ? D : 128, kParts = D / kColumns;  // gradient columns of a block
  static constexpr int kKept = 2 * kStream * kKeptWords<kOwn>;
  static constexpr size_t shared_bytes(bool drops) {
    return BackwardTiles<D>::kElements * sizeof(bf16) + 4 * kStream * sizeof(float) +
           (drops ? kKept * sizeof(uint32_t) : 0);
  }
};

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) keys_kernel(const Operands<bf16> a) {
  using T = Tiles<D>;
  const KeyOwner owner(a, T::kOwn, T::kParts);
  const int sample = owner.sample, kv_head = owner.kv_head, first = owner.first, part = owner.part * T::kColumns;
  const int own = first + warp_id() * 16;

  FP_DYNAMIC_SHARED(bf16, k_tile);
  bf16* const v_tile = k_tile + kTile<bf16, D>(T::kOwn);
  bf16* const q_tiles = v_tile + kTile<bf16, D>(T::kOwn);
  bf16* const do_tiles = q_tiles + 2 * kTile<bf16, D>(T::kStream);
  auto* const row_values = reinterpret_cast<float*>(do_tiles + 2 * kTile<bf16, D>(T::kStream));
  auto* const kept = reinterpret_cast<uint32_t*>(row_values + 4 * T::kStream);
  const int mine = kTile<bf16, D>(warp_id() * 16), left = a.mask.keys - first;
  load_tile<D, T::kOwn, T::kThreads>(k_tile, a.k + a.at_key(sample, first, kv_head), a.k_step(), left, a.head_dim,
                                     a.aligned);
  load_tile<D, T::kOwn, T::kThreads>(v_tile, a.v + a.at_key(sample, first, kv_head), a.k_step(), left, a.head_dim,
                                     a.aligned);

  const QueryVisits<T::kStream> visits(a, owner, T::kOwn);
  const auto issue = [&](int visit, int buffer) {
    const int head = visits.head(visit), query = visits.query(visit), rows = a.mask.queries - query;
    const int at = kTile<bf16, D>(buffer * T::kStream);
    const int64_t offset = a.at_query(sample, query, head);
    load_tile<D, T::kStream, T::kThreads>(q_tiles + at, a.q + offset, a.q_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(do_tiles + at, a.d_o + offset, a.q_step(), rows, a.head_dim, a.aligned);
    load_row_values<T::kStream, T::kThreads>(row_values + buffer * 2 * T::kStream, a, sample, head, query);
    if (a.drops.on())
      draw_kept<T::kStream, T::kOwn, T::kThreads>(kept + buffer * T::kKept / 2, a.drops, sample, head,
                                                  a.mask.q_offset + query, a.mask.k_offset + first);
  };
  float dk[1][T::kColumns / 8][4] = {}, dv[1][T::kColumns / 8][4] = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int visit, int buffer) {
    const Visibility seen = visits.visibility(visit, own, 16);
    if (seen == Visibility::none) return;
    const bf16* const q = q_tiles + kTile<bf16, D>(buffer * T::kStream);
    const bf16* const d_o = do_tiles + kTile<bf16, D>(buffer * T::kStream);
    const float* const lse = row_values + buffer * 2 * T::kStream;
    const float* const delta = lse + T::kStream;
    const auto keeps = [&](int row, int column) {
      return !a.drops.on() || is_kept<T::kOwn>(kept + buffer * T::kKept / 2, column, own - first + row);
    };
    float p[1][T::kStream / 8][4] = {}, ds[1][T::kStream / 8][4] = {};
    add_product_transposed<D>(p, k_tile + mine, q);
    for_each(p, [&](float& x, Spot) { x *= factor; });
    if (seen == Visibility::some) hide<false>(p, visits.mask(visit), own, visits.query(visit));
    for_each(p, [&](float& x, Spot at) { x = exp2_approx(x - lse[at.column]); });
    add_product_transposed<D>(ds, v_tile + mine, d_o);
    for_each_pair(ds, p, [&](float& x, float& prob, Spot at) {
      const bool keep = keeps(at.row, at.column);
      x = prob * ((keep ? x * a.drops.kept_factor : 0.0f) - delta[at.column]);
      prob = keep ? prob : 0.0f;
    });
    add_product<D>(dv, p, d_o + part);
    add_product<D>(dk, ds, q + part);
  };
  stream_tiles(
      0, visits.count(), [&](int visit) { return visits.visibility(visit, first, T::kOwn) != Visibility::none; }, issue,
      compute);

  for_each(dk, [&](float& x, Spot) { x *= a.scale; });
  for_each(dv, [&](float& x, Spot) { x *= a.drops.kept_factor; });
  const int64_t at = a.at_key(sample, own, kv_head) + part;
  const int columns = a.head_dim - part;
  if (a.add_dkv) {
    add_rows(dk, a.dk + at, a.k_step(), a.mask.keys - own, columns);
    add_rows(dv, a.dv + at, a.k_step(), a.mask.keys - own, columns);
  }
  store_rows<D>(a.dk + at, a.k_step(), a.mask.keys - own, columns, a.aligned, dk[0], k_tile + mine);
  store_rows<D>(a.dv + at, a.k_step(), a.mask.keys - own, columns, a.aligned, dv[0], v_tile + mine);
}

}  // namespace

void flash_backward_keys(const Operands<bf16>& a, Stream stream) {
  with_head_size(a.head_dim, [&](auto size) {
    using T = Tiles<size>;
    launch<keys_kernel<size>>(Grid{KeyOwner::blocks(a, T::kOwn, T::kParts), T::kThreads, T::shared_bytes(a.drops.on())},
                              stream, a);
  });
}

size_t flash_keys_shared(int head_dim, bool drops) {
  size_t bytes = 0;
  with_head_size(head_dim, [&](auto size) { bytes = Tiles<size>::shared_bytes(drops); });
  return bytes;
}

}  // namespace fp::cuda
