// Attention backward. One thread handles all of a (sample, kv head), so dk and dv are summed in one place, in order:
//   for each query head of the group, for each block of 64 keys, for each block of 64 queries that sees it:
//     P^T = exp2(K Q^T scale log2(e) - lse);  dS^T = P^T (V dO^T - D),  D = rowsum(dO O)
//     dV += P^T dO;  dK += dS^T Q;  dQ^T += K^T dS^T
// Memory: a few copies of one head's q, k, v in f32, per thread. The scale is applied to dq and dk at the end.
#include "ops/cpu/kernels/attention_tile.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

struct BackwardWorkspace {
  int64_t row_words, key_words, d_pad, q_blocks, k_blocks;
  // For the kv head: rows of words, and K transposed by block of keys.
  Word *k, *v, *k_across;
  float *dk, *dv;  // [k_len][d_pad]
  // For the query head, by block of queries: transposed, and words across the queries.
  Word *q_transposed, *do_transposed, *q_across, *do_across;
  float *lse, *delta, *dq;  // lse in units of log2; +infinity for lanes without a query
  // For one tile.
  float *scores, *dp, *factors;
  Word *p_along, *ds_along, *ds_across, *rows;
};

template <class Unit>
BackwardWorkspace cut_backward_workspace(const AttentionArgs& a, Cutter& cutter) {
  BackwardWorkspace w{};
  const int64_t d = a.head_dim, tile = kQueries * kKeys;
  w.row_words = words<Unit>(d);
  w.key_words = kKeys / Unit::kPerWord;
  w.d_pad = round_up(d, kLanes);
  w.q_blocks = blocks_of(a.q_len, kQueries);
  w.k_blocks = blocks_of(a.k_len, kKeys);
  const int64_t q_words = kQueries / Unit::kPerWord;
  w.k = cutter.take<Word>(a.k_len * w.row_words);
  w.v = cutter.take<Word>(a.k_len * w.row_words);
  w.k_across = cutter.take<Word>(w.k_blocks * d * w.key_words);
  w.dk = cutter.take<float>(a.k_len * w.d_pad);
  w.dv = cutter.take<float>(a.k_len * w.d_pad);
  w.q_transposed = cutter.take<Word>(w.q_blocks * w.row_words * kQueries);
  w.do_transposed = cutter.take<Word>(w.q_blocks * w.row_words * kQueries);
  w.q_across = cutter.take<Word>(w.q_blocks * q_words * w.d_pad);
  w.do_across = cutter.take<Word>(w.q_blocks * q_words * w.d_pad);
  w.lse = cutter.take<float>(w.q_blocks * kQueries);
  w.delta = cutter.take<float>(w.q_blocks * kQueries);
  w.dq = cutter.take<float>(w.q_blocks * d * kQueries);
  w.scores = cutter.take<float>(tile);
  w.dp = cutter.take<float>(tile);
  w.factors = cutter.take<float>(a.dropout.p > 0 ? tile : 0);
  w.p_along = cutter.take<Word>(tile);
  w.ds_along = cutter.take<Word>(tile);
  w.ds_across = cutter.take<Word>(tile);
  w.rows = cutter.take<Word>(kQueries * larger(w.row_words, w.d_pad));
  return w;
}

template <class Unit, class T>
void pack_keys(const AttentionArgs& a, const BackwardWorkspace& w, int64_t b, int64_t kv) {
  const int64_t d = a.head_dim, stride = a.kv_heads * d;
  const T *k = key_row<T>(a.k, a, b, 0, kv), *v = key_row<T>(a.v, a, b, 0, kv);
  for (int64_t j = 0; j < a.k_len; ++j) {
    prefetch_row(k + j * stride, stride, d);
    prefetch_row(v + j * stride, stride, d);
    pack_row<Unit>(w.k + j * w.row_words, k + j * stride, d);
    pack_row<Unit>(w.v + j * w.row_words, v + j * stride, d);
  }
  for (int64_t block = 0; block < w.k_blocks; ++block) {
    const int64_t count = smaller(kKeys, a.k_len - block * kKeys);
    pack_rows_across<Unit>(w.rows, d, k + block * kKeys * stride, stride, count, d);
    transpose(w.k_across + block * d * w.key_words, w.key_words, w.rows, d, words<Unit>(count), d);
  }
  memset(w.dk, 0, static_cast<size_t>(a.k_len * w.d_pad) * sizeof(float));
  memset(w.dv, 0, static_cast<size_t>(a.k_len * w.d_pad) * sizeof(float));
}

template <class Unit, class T>
void pack_queries(const AttentionArgs& a, const BackwardWorkspace& w, int64_t b, int64_t h, int64_t block) {
  const int64_t d = a.head_dim, stride = a.heads * d, first = block * kQueries,
                count = smaller(kQueries, a.q_len - first);
  const int64_t transposed = block * w.row_words * kQueries, across = block * (kQueries / Unit::kPerWord) * w.d_pad;
  const T *q = query_row<T>(a.q, a, b, first, h), *d_o = query_row<T>(a.d_o, a, b, first, h);
  const T* o = query_row<T>(a.o, a, b, first, h);
  pack_transposed<Unit>(w.q_transposed + transposed, kQueries, w.rows, q, stride, count, d);
  pack_transposed<Unit>(w.do_transposed + transposed, kQueries, w.rows, d_o, stride, count, d);
  pack_rows_across<Unit>(w.q_across + across, w.d_pad, q, stride, count, d);
  pack_rows_across<Unit>(w.do_across + across, w.d_pad, d_o, stride, count, d);
  for (int64_t i = 0; i < kQueries; ++i) {
    float lse = __builtin_inff(), delta = 0;
    prefetch_row(o + i * stride, stride, d);
    if (i < count) {
      const float l = a.lse[(b * a.heads + h) * a.q_len + first + i];
      if (l != -__builtin_inff()) lse = l * kLog2e;
      Vf total{};
      columns(
          d, [&](int64_t c, auto part) { total += load(d_o + i * stride + c, part) * load(o + i * stride + c, part); });
      delta = sum(total);
    }
    w.lse[first + i] = lse;
    w.delta[first + i] = delta;
  }
  memset(w.dq + block * d * kQueries, 0, static_cast<size_t>(d * kQueries) * sizeof(float));
}

// Computes P and dS, as words, from the scores and dP of a tile. ds_across has only the keys that a step of lanes can
// see.
template <class Unit>
void differentiate_tile(const AttentionArgs& a, const BackwardWorkspace& w, const QueryBlock& q, int64_t h, int64_t n,
                        int64_t count, bool masked) {
  constexpr int64_t kAlong = kQueries / Unit::kPerWord;
  const float scale = a.scale * kLog2e;
  for (int v = 0; v < kVectors; ++v) {
    const Vf lse = load(w.lse + q.first + v * kLanes), delta = load(w.delta + q.first + v * kLanes);
    const int64_t keys = keys_of_step(q, v, n, count);
    for (int64_t j = 0; j < keys; j += 2) {
      Vf ds[2] = {};
      for (int i = 0; i < 2 && j + i < keys; ++i) {
        const int64_t at = (j + i) * kQueries + v * kLanes;
        Vf p = exp2_small(load(w.scores + at) * scale - lse), dp = load(w.dp + at), kept = p;
        if (masked) p = kept = sees(q, v, n + j + i, upper_bound(a, h, n + j + i)) ? p : Vf{};
        if (a.dropout.p > 0) {
          const Vf factor = load(w.factors + at);
          kept *= factor;
          dp *= factor;
        }
        ds[i] = p * (dp - delta);
        store_along<Unit>(w.p_along + (j + i) * kAlong + v * kLanes / Unit::kPerWord, kept);
        store_along<Unit>(w.ds_along + (j + i) * kAlong + v * kLanes / Unit::kPerWord, ds[i]);
      }
      store_across<Unit>(w.ds_across + j / Unit::kPerWord * kQueries + v * kLanes, kQueries, ds[0], ds[1]);
    }
    for (int64_t j = keys; j < count; ++j) {
      store_along<Unit>(w.p_along + j * kAlong + v * kLanes / Unit::kPerWord, Vf{});
      store_along<Unit>(w.ds_along + j * kAlong + v * kLanes / Unit::kPerWord, Vf{});
    }
  }
}

template <class Unit>
void backward_tile(const AttentionArgs& a, const BackwardWorkspace& w, const QueryBlock& q, int64_t b, int64_t h,
                   int64_t key, int64_t count, bool masked) {
  constexpr int64_t kAlong = kQueries / Unit::kPerWord;
  const int64_t d = a.head_dim, q_block = q.first / kQueries, k_block = key / kKeys, d_vectors = w.d_pad / kLanes;
  const Word* q_transposed = w.q_transposed + q_block * w.row_words * kQueries;
  const Word* do_transposed = w.do_transposed + q_block * w.row_words * kQueries;
  const Word* q_across = w.q_across + q_block * kAlong * w.d_pad;
  const Word* do_across = w.do_across + q_block * kAlong * w.d_pad;
  const auto times = [](float* c, int64_t ldc, const Word* x, int64_t ldx, const Word* y, int64_t ldy, int64_t k,
                        bool add) { return Product2d{c, ldc, x, ldx, y, ldy, k, add, nullptr}; };
  const int64_t n = a.k_offset + key;
  for_vectors(q, n, count, [&](int v, int vectors, int64_t keys) {
    const Word *k = w.k + key * w.row_words, *values = w.v + key * w.row_words;
    multiply<Unit>(
        from_vector(times(w.scores, kQueries, k, w.row_words, q_transposed, kQueries, w.row_words, false), v), keys,
        vectors);
    multiply<Unit>(
        from_vector(times(w.dp, kQueries, values, w.row_words, do_transposed, kQueries, w.row_words, false), v), keys,
        vectors);
  });
  if (a.dropout.p > 0) dropout_tile(w.factors, a, q, b, h, n, count);
  differentiate_tile<Unit>(a, w, q, h, n, count, masked);
  for_keys(q, n, count, [&](int64_t j, int64_t keys, int64_t lane) {
    const int64_t word = lane / Unit::kPerWord, depth = words<Unit>(q.count - lane), row = (key + j) * w.d_pad;
    const int64_t along = j * kAlong + word, across = word * w.d_pad;
    multiply<Unit>(times(w.dv + row, w.d_pad, w.p_along + along, kAlong, do_across + across, w.d_pad, depth, true),
                   keys, d_vectors);
    multiply<Unit>(times(w.dk + row, w.d_pad, w.ds_along + along, kAlong, q_across + across, w.d_pad, depth, true),
                   keys, d_vectors);
  });
  for_vectors(q, n, count, [&](int v, int vectors, int64_t keys) {
    multiply<Unit>(from_vector(times(w.dq + q_block * d * kQueries, kQueries, w.k_across + k_block * d * w.key_words,
                                     w.key_words, w.ds_across, kQueries, words<Unit>(keys), true),
                               v),
                   d, vectors);
  });
}

template <class T>
void write_dq(const AttentionArgs& a, const BackwardWorkspace& w, int64_t b, int64_t h, int64_t block) {
  const int64_t d = a.head_dim, first = block * kQueries, count = smaller(kQueries, a.q_len - first);
  transpose(w.rows, d, reinterpret_cast<const Word*>(w.dq + block * d * kQueries), kQueries, d, kQueries);
  for (int64_t i = 0; i < count; ++i) {
    T* dst = static_cast<T*>(a.dq) + ((b * a.q_len + first + i) * a.heads + h) * d;
    const float* src = reinterpret_cast<const float*>(w.rows) + i * d;
    columns(d, [&](int64_t c, auto part) {
      const Vf x = load(src + c, part) * a.scale;
      store(dst + c, a.add_dq ? load(dst + c, part) + x : x, part);
    });
  }
}

template <class Unit, class T>
void backward_head(const AttentionArgs& a, const BackwardWorkspace& w, int64_t b, int64_t h) {
  for (int64_t block = 0; block < w.q_blocks; ++block) pack_queries<Unit, T>(a, w, b, h, block);
  for (int64_t q_block = 0; q_block < w.q_blocks; ++q_block) {
    const QueryBlock q(a, b, q_block * kQueries);
    const int64_t end = smaller(a.k_len, q.p_max + 1 - a.k_offset);
    for (int64_t key = larger(0, q.start_min - a.k_offset) / kKeys * kKeys; key < end; key += kKeys) {
      const int64_t count = smaller(kKeys, a.k_len - key);
      const Visibility seen = visibility(a, q, h, key, count);
      if (seen != Visibility::none) backward_tile<Unit>(a, w, q, b, h, key, count, seen == Visibility::some);
    }
    write_dq<T>(a, w, b, h, q_block);
  }
}

template <class T>
void write_dkv(const AttentionArgs& a, const BackwardWorkspace& w, int64_t b, int64_t kv) {
  for (int64_t j = 0; j < a.k_len; ++j) {
    const int64_t at = ((b * a.k_len + j) * a.kv_heads + kv) * a.head_dim;
    T *dk = static_cast<T*>(a.dk) + at, *dv = static_cast<T*>(a.dv) + at;
    columns(a.head_dim, [&](int64_t c, auto part) {
      const Vf x = load(w.dk + j * w.d_pad + c) * a.scale, y = load(w.dv + j * w.d_pad + c);
      store(dk + c, a.add_dkv ? load(dk + c, part) + x : x, part);
      store(dv + c, a.add_dkv ? load(dv + c, part) + y : y, part);
    });
  }
}

template <class T>
void run_backward(const AttentionArgs& a) {
  using Unit = typename UnitOf<T>::type;
  Cutter measure{nullptr};
  cut_backward_workspace<Unit>(a, measure);
  const int64_t group = a.heads / a.kv_heads;
  parallel_each(a.batch * a.kv_heads, [&](int64_t i, int thread) {
    Cutter own{a.scratch + measure.used * static_cast<size_t>(thread)};
    const BackwardWorkspace w = cut_backward_workspace<Unit>(a, own);
    const TileSession tiles;
    const int64_t b = i / a.kv_heads, kv = i % a.kv_heads;
    pack_keys<Unit, T>(a, w, b, kv);
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) backward_head<Unit, T>(a, w, b, h);
    write_dkv<T>(a, w, b, kv);
  });
}

template <class T>
size_t backward_scratch(const AttentionArgs& a) {
  Cutter own{nullptr};
  cut_backward_workspace<typename UnitOf<T>::type>(a, own);
  return own.used * static_cast<size_t>(a.threads);
}

}  // namespace

size_t attention_backward_scratch(const AttentionArgs& a) {
  return a.bf16 ? backward_scratch<bf16>(a) : backward_scratch<float>(a);
}

void attention_backward(const AttentionArgs& a) {
  if (a.bf16)
    run_backward<bf16>(a);
  else
    run_backward<float>(a);
}

}  // namespace fp::cpu::FP_ISA
