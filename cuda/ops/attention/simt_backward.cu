// Attention backward in f32, without tensor cores. With p recomputed from lse, dp = d_o v^T and ds = p * (dp - delta):
//   dv = p^T d_o,   dk = scale * ds^T q,   summed over all queries of all heads that share the keys
//   dq = scale * ds k
// One kernel owns 32 keys a block and streams tiles of queries, computing scores transposed; the other owns 32 queries
// and streams tiles of keys. Every sum has one owner and a fixed order.
#include "cuda/ops/attention/query_visits.h"
#include "cuda/ops/attention/simt.h"

namespace fp::cuda {
namespace {

template <int D>
struct Tiles : SimtTiles<D> {
  using Base = SimtTiles<D>;
  static constexpr int kFloats = 2 * kTile<float, D>(Base::kOwn) + 4 * kTile<float, D>(Base::kStream) +
                                 2 * Base::kOwn * Base::kWeightRow + 4 * Base::kStream;
  // Kept bits: a word for each streamed query (32 keys) or for each own query; two stages.
  static constexpr size_t shared_bytes(bool drops) { return (kFloats + (drops ? 2 * Base::kOwn : 0)) * sizeof(float); }
};

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) keys_kernel(const Operands<float> a) {
  using T = Tiles<D>;
  const KeyOwner owner(a, T::kOwn, 1);
  const int sample = owner.sample, first = owner.first, left = a.mask.keys - first;
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
  const auto issue = [&](int visit, int stage) {
    const int head = visits.head(visit), query = visits.query(visit), rows = a.mask.queries - query;
    const int at = kTile<float, D>(stage * T::kStream);
    const int64_t from = a.at_query(sample, query, head);
    load_tile<D, T::kStream, T::kThreads>(q_tiles + at, a.q + from, a.q_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(do_tiles + at, a.d_o + from, a.q_step(), rows, a.head_dim, a.aligned);
    load_row_values<T::kStream, T::kThreads>(row_values + stage * 2 * T::kStream, a, sample, head, query);
    if (a.drops.on())
      draw_kept<T::kStream, T::kOwn, T::kThreads>(kept + stage * T::kStream, a.drops, sample, head,
                                                  a.mask.q_offset + query, a.mask.k_offset + first);
  };
  typename T::Result dk = {}, dv = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int visit, int stage) {
    const float* const q = q_tiles + kTile<float, D>(stage * T::kStream);
    const float* const d_o = do_tiles + kTile<float, D>(stage * T::kStream);
    const float* const lse = row_values + stage * 2 * T::kStream;
    const HeadMask mask = visits.mask(visit);
    typename T::Scores p, ds;
    dot_rows_of_tiles<D>(p, k_tile, q);
    dot_rows_of_tiles<D>(ds, v_tile, d_o);
    for_each_score(p, [&](float& x, int row, int column) {
      const bool seen = sees(mask.query(visits.query(visit) + column), mask.key(first + row));
      const bool keep = !a.drops.on() || is_kept<T::kOwn>(kept + stage * T::kStream, column, row);
      const float prob = seen ? exp2_approx(x * factor - lse[column]) : 0.0f;
      float& dp = ds[row / 16][column / kSharers];
      dp = prob * ((keep ? dp * a.drops.kept_factor : 0.0f) - lse[T::kStream + column]);
      x = keep ? prob : 0.0f;
    });
    put_weights<D>(p_weights, p);
    put_weights<D>(ds_weights, ds);
    __syncwarp();
    add_weighted_rows<D>(dv, p_weights, d_o);
    add_weighted_rows<D>(dk, ds_weights, q);
  };
  stream_tiles(
      0, visits.count(), [&](int visit) { return visits.look(visit, first, T::kOwn) != Visibility::none; }, issue,
      compute);
  store_result<D>(a.dk + at_keys, a.k_step(), left, a.head_dim, a.aligned, dk, {a.scale, a.scale});
  store_result<D>(a.dv + at_keys, a.k_step(), left, a.head_dim, a.aligned, dv,
                  {a.drops.kept_factor, a.drops.kept_factor});
}

template <int D>
__global__ void __launch_bounds__(Tiles<D>::kThreads) queries_kernel(const Operands<float> a) {
  using T = Tiles<D>;
  const QueryOwner owner(a, T::kOwn);
  const int sample = owner.sample, head = owner.head, first = owner.first, left = a.mask.queries - first;
  const HeadMask mask(a.mask, sample, head);
  const Queries all = mask.queries(first, T::kOwn);
  const int64_t at_queries = a.at_query(sample, first, head);
  FP_DYNAMIC_SHARED(float, q_tile);
  float* const do_tile = q_tile + kTile<float, D>(T::kOwn);
  float* const k_tiles = do_tile + kTile<float, D>(T::kOwn);
  float* const v_tiles = k_tiles + 2 * kTile<float, D>(T::kStream);
  float* const weights = v_tiles + 2 * kTile<float, D>(T::kStream);
  auto* const kept = reinterpret_cast<uint32_t*>(weights + T::kOwn * T::kWeightRow);
  load_tile<D, T::kOwn, T::kThreads>(q_tile, a.q + at_queries, a.q_step(), left, a.head_dim, a.aligned);
  load_tile<D, T::kOwn, T::kThreads>(do_tile, a.d_o + at_queries, a.q_step(), left, a.head_dim, a.aligned);
  float lse[kRowSlots] = {}, delta[kRowSlots] = {};
  for (int i = 0; i < kRowSlots; ++i) {
    if (row_of(i) >= left) continue;
    lse[i] = a.lse[a.at_row(sample, first + row_of(i), head)] * kLog2E;
    delta[i] = a.delta[a.at_row(sample, first + row_of(i), head)];
  }
  const auto issue = [&](int tile, int stage) {
    const int key = tile * T::kStream, rows = a.mask.keys - key, at = kTile<float, D>(stage * T::kStream);
    const int64_t from = a.at_key(sample, key, owner.kv_head);
    load_tile<D, T::kStream, T::kThreads>(k_tiles + at, a.k + from, a.k_step(), rows, a.head_dim, a.aligned);
    load_tile<D, T::kStream, T::kThreads>(v_tiles + at, a.v + from, a.k_step(), rows, a.head_dim, a.aligned);
    if (a.drops.on())
      draw_kept<T::kOwn, T::kStream, T::kThreads>(kept + stage * T::kOwn, a.drops, sample, head, all.first,
                                                  a.mask.k_offset + key);
  };
  typename T::Result dq = {};
  const float factor = a.scale * kLog2E;
  const auto compute = [&](int tile, int stage) {
    const float* const k = k_tiles + kTile<float, D>(stage * T::kStream);
    typename T::Scores s, ds;
    dot_rows_of_tiles<D>(s, q_tile, k);
    dot_rows_of_tiles<D>(ds, do_tile, v_tiles + kTile<float, D>(stage * T::kStream));
    for_each_score(ds, [&](float& x, int row, int column) {
      const bool seen = sees(mask.query(first + row), mask.key(tile * T::kStream + column));
      const bool keep = !a.drops.on() || is_kept<T::kStream>(kept + stage * T::kOwn, row, column);
      const float score = s[row / 16][column / kSharers];
      const float prob = seen ? exp2_approx(score * factor - lse[row / 16]) : 0.0f;
      x = prob * ((keep ? x * a.drops.kept_factor : 0.0f) - delta[row / 16]);
    });
    put_weights<D>(weights, ds);
    __syncwarp();
    add_weighted_rows<D>(dq, weights, k);
  };
  stream_tiles(
      mask.first_key(all) / T::kStream, (mask.end_key(all) + T::kStream - 1) / T::kStream,
      [&](int tile) { return mask.look(all, tile * T::kStream, T::kStream) != Visibility::none; }, issue, compute);
  store_result<D>(a.dq + at_queries, a.q_step(), left, a.head_dim, a.aligned, dq, {a.scale, a.scale});
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

}  // namespace fp::cuda
