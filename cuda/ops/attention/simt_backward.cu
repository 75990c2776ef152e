// Attention backward in f32, without tensor cores. With p recomputed from lse, dp = d_o v^T and ds = p * (dp - delta):
//   dv = p^T d_o,   dk = scale * ds^T q,   summed over all queries of all heads that share the keys
//   dq = scale * ds k
// A block of one kernel owns 64 keys (head size 256: 32) and streams tiles of queries, with transposed scores; a block
// of the other owns as many queries and streams tiles of keys. Every sum has one owner and a fixed order.
#include "cuda/ops/attention/query_visits.h"
#include "cuda/ops/attention/simt.h"

namespace fp::cuda {
namespace {

template <int D>
struct Tiles : SimtTiles<D> {
  using Base = SimtTiles<D>;
  static constexpr int kFloats = 2 * kTile<float, D>(Base::kOwn) + 4 * kTile<float, D>(Base::kStream) +
                                 2 * Base::kOwn * Base::kWeightRow + 4 * Base::kStream;
  // Dropout mask words of one buffer: streamed queries with own keys, or own queries with streamed keys.
  static constexpr int kKeptOfKeys = Base::kStream * kKeptWords<Base::kOwn>;
  static constexpr int kKeptOfQueries = Base::kOwn * kKeptWords<Base::kStream>;
  static constexpr size_t shared_bytes(bool drops) {
    constexpr int kKept = kKeptOfKeys > kKeptOfQueries ? kKeptOfKeys : kKeptOfQueries;
    return (kFloats + (drops ? 2 * kKept : 0)) * sizeof(float);
  }
};

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) keys_kernel(const Operands<float> a) {
  using T = Tiles<D>;
  const KeyOwner owner(a, T::kOwn, 1);
  const int sample = owner.sample, first = owner.first, left = a.mask.keys - first;
  const int row0 = warp_id() * T::kWarpRows;  // first row of this warp
  const int64_t at_keys = a.at_key(sample, first, owner.kv_head);
  FP_DYNAMIC_SHARED(float, k_tile);
  float* const v_tile = k_tile + kTile<float, D>(T::kOwn);
  float* const q_tiles = v_tile + kTile<float, D>(T::kOwn);
  float* const do_tiles = q_tiles + 2 * kTile<float, D>(T::kStream);
  float* const p_weights = do_tiles + 2 * kTile<float, D>(T::kStream);
  float* const ds_weights = p_weights + T::kOwn * T::kWeightRow;
  float* const row_values = ds_weights + T::kOwn * T::kWeightRow;
  auto* const kept = reinterpret_cast<uint32_t*>(row_values + 4 * T::kStream);
  load_tile<D, T::kOwn, T::kThreads>(k_tile, a.k + at_keys, a.k_step(), left, a.head_dim, a.aligned);
  load_tile<D, T::kOwn, T::kThreads>(v_tile, a.v + at_keys, a.k_step(), left, a.head_dim, a.aligned);

  const QueryVisits<T::kStream> visits(a, owner, T::kOwn);
  const auto issue = [&](int visit, int buffer) {
    const int head = visits.head(visit), query = visits.query(visit), rows = a.mask.queries - query;
    const int at = kTile<float, D>(buffer * T::kStream);
    const int64_t from = a.at_query(sample, query, head);
    load_tile<D, T::kStream, T::kThreads>(q_tiles + at, a.q + from, a.q_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(do_tiles + at, a.d_o + from, a.q_step(), rows, a.head_dim, a.aligned);
    load_row_values<T::kStream, T::kThreads>(row_values + buffer * 2 * T::kStream, a, sample, head, query);
    if (a.drops.on())
      draw_kept<T::kStream, T::kOwn, T::kThreads>(kept + buffer * T::kKeptOfKeys, a.drops, sample, head,
                                                  a.mask.q_offset + query, a.mask.k_offset + first);
  };
  typename T::Result dk = {}, dv = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int visit, int buffer) {
    const float* const q = q_tiles + kTile<float, D>(buffer * T::kStream);
    const float* const d_o = do_tiles + kTile<float, D>(buffer * T::kStream);
    const float* const lse = row_values + buffer * 2 * T::kStream;
    float* const my_p = p_weights + row0 * T::kWeightRow;
    float* const my_ds = ds_weights + row0 * T::kWeightRow;
    const HeadMask mask = visits.mask(visit);
    const Visibility visible = visits.visibility(visit, first + row0, T::kWarpRows);
    if (visible == Visibility::none) return;
    typename T::Scores p, ds;
    dot_rows_of_tiles<D>(p, k_tile + kTile<float, D>(row0), q);
    dot_rows_of_tiles<D>(ds, v_tile + kTile<float, D>(row0), d_o);
    for_each_pair(p, ds, [&](float& x, float& dp, Spot at) {
      const bool seen = visible == Visibility::all ||
                        sees(mask.query(visits.query(visit) + at.column), mask.key(first + row0 + at.row));
      const bool keep = !a.drops.on() || is_kept<T::kOwn>(kept + buffer * T::kKeptOfKeys, at.column, row0 + at.row);
      const float prob = seen ? exp2_approx(x * factor - lse[at.column]) : 0.0f;
      dp = prob * ((keep ? dp * a.drops.kept_factor : 0.0f) - lse[T::kStream + at.column]);
      x = keep ? prob : 0.0f;
    });
    put_weights<D>(my_p, p);
    put_weights<D>(my_ds, ds);
    add_weighted_rows<D>(dv, my_p, d_o);
    add_weighted_rows<D>(dk, my_ds, q);
  };
  stream_tiles(
      0, visits.count(), [&](int visit) { return visits.visibility(visit, first, T::kOwn) != Visibility::none; }, issue,
      compute);
  float dk_factors[T::kRowSlots], dv_factors[T::kRowSlots];
  for (float& x : dk_factors) x = a.scale;
  for (float& x : dv_factors) x = a.drops.kept_factor;
  const int64_t mine = at_keys + int64_t{row0} * a.k_step();
  store_result<D>(a.dk + mine, a.k_step(), left - row0, a.head_dim, a.aligned, dk, dk_factors, a.add_dkv);
  store_result<D>(a.dv + mine, a.k_step(), left - row0, a.head_dim, a.aligned, dv, dv_factors, a.add_dkv);
}

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) queries_kernel(const Operands<float> a) {
  using T = Tiles<D>;
  const QueryOwner owner(a, T::kOwn);
  const int sample = owner.sample, head = owner.head, first = owner.first, left = a.mask.queries - first;
  const int row0 = warp_id() * T::kWarpRows;  // first row of this warp
  const HeadMask mask(a.mask, sample, head);
  const Queries all = mask.queries(first, T::kOwn), own = mask.queries(first + row0, T::kWarpRows);
  const int64_t at_queries = a.at_query(sample, first, head);
  FP_DYNAMIC_SHARED(float, q_tile);
  float* const do_tile = q_tile + kTile<float, D>(T::kOwn);
  float* const k_tiles = do_tile + kTile<float, D>(T::kOwn);
  float* const v_tiles = k_tiles + 2 * kTile<float, D>(T::kStream);
  float* const all_weights = v_tiles + 2 * kTile<float, D>(T::kStream);
  float* const weights = all_weights + row0 * T::kWeightRow;
  auto* const kept = reinterpret_cast<uint32_t*>(all_weights + T::kOwn * T::kWeightRow);
  load_tile<D, T::kOwn, T::kThreads>(q_tile, a.q + at_queries, a.q_step(), left, a.head_dim, a.aligned);
  load_tile<D, T::kOwn, T::kThreads>(do_tile, a.d_o + at_queries, a.q_step(), left, a.head_dim, a.aligned);
  float lse[T::kRowSlots] = {}, delta[T::kRowSlots] = {};
#pragma unroll
  for (int i = 0; i < T::kRowSlots; ++i) {
    if (row0 + row_of(i) >= left) continue;
    const int64_t at = a.at_row(sample, first + row0 + row_of(i), head);
    lse[i] = base2(a.lse[at]);
    delta[i] = a.delta[at];
  }
  const auto issue = [&](int tile, int buffer) {
    const int key = tile * T::kStream, rows = a.mask.keys - key, at = kTile<float, D>(buffer * T::kStream);
    const int64_t from = a.at_key(sample, key, owner.kv_head);
    load_tile<D, T::kStream, T::kThreads>(k_tiles + at, a.k + from, a.k_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(v_tiles + at, a.v + from, a.k_step(), rows, a.head_dim, a.aligned);
    if (a.drops.on())
      draw_kept<T::kOwn, T::kStream, T::kThreads>(kept + buffer * T::kKeptOfQueries, a.drops, sample, head, all.first,
                                                  a.mask.k_offset + key);
  };
  typename T::Result dq = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int tile, int buffer) {
    const float* const k = k_tiles + kTile<float, D>(buffer * T::kStream);
    const Visibility visible = mask.visibility(own, tile * T::kStream, T::kStream);
    if (visible == Visibility::none) return;
    typename T::Scores s, ds;
    dot_rows_of_tiles<D>(s, q_tile + kTile<float, D>(row0), k);
    dot_rows_of_tiles<D>(ds, do_tile + kTile<float, D>(row0), v_tiles + kTile<float, D>(buffer * T::kStream));
    for_each_pair(ds, s, [&](float& x, float& score, Spot at) {
      const bool seen = visible == Visibility::all ||
                        sees(mask.query(first + row0 + at.row), mask.key(tile * T::kStream + at.column));
      const bool keep =
          !a.drops.on() || is_kept<T::kStream>(kept + buffer * T::kKeptOfQueries, row0 + at.row, at.column);
      const float prob = seen ? exp2_approx(score * factor - lse[at.slot]) : 0.0f;
      x = prob * ((keep ? x * a.drops.kept_factor : 0.0f) - delta[at.slot]);
    });
    put_weights<D>(weights, ds);
    add_weighted_rows<D>(dq, weights, k);
  };
  stream_tiles(
      mask.first_key(all) / T::kStream, (mask.end_key(all) + T::kStream - 1) / T::kStream,
      [&](int tile) { return mask.visibility(all, tile * T::kStream, T::kStream) != Visibility::none; }, issue,
      compute);
  float factors[T::kRowSlots];
  for (float& x : factors) x = a.scale;
  store_result<D>(a.dq + at_queries + int64_t{row0} * a.q_step(), a.q_step(), left - row0, a.head_dim, a.aligned, dq,
                  factors, a.add_dq);
}

}  // namespace

void simt_backward(const Operands<float>& a, Stream stream) {
  with_simt_head_size(a.head_dim, [&](auto size) {
    using T = Tiles<size>;
    const size_t shared = T::shared_bytes(a.drops.on());
    if (a.mask.keys > 0)
      launch<keys_kernel<size>>(Grid{KeyOwner::blocks(a, T::kOwn, 1), T::kThreads, shared}, stream, a);
    launch<queries_kernel<size>>(Grid{QueryOwner::blocks(a, T::kOwn), T::kThreads, shared}, stream, a);
  });
}

size_t simt_backward_shared(int head_dim, bool drops) {
  size_t bytes = 0;
  with_simt_head_size(head_dim, [&](auto size) { bytes = Tiles<size>::shared_bytes(drops); });
  return bytes;
}

}  // namespace fp::cuda
