// Attention forward, with the softmax computed block by block ("flash"): memory grows with the sequence, not its
// square. Per block of 64 queries, for each visible block of 64 keys:
//   S^T = K Q^T;  P^T = exp2(S^T log2(e) scale - m);  O^T = O^T exp2(m_old - m) + V^T P^T
#include "ops/cpu/kernels/attention_tile.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int64_t kPackedBytes = int64_t{32} << 20;  // limit on packed keys and values, but at least one head's

// Packed operands of the (sample, kv head) pairs [first, first + count): keys as rows of words, values transposed by
// block of keys.
struct Packed {
  int64_t row_words, key_words, blocks, count;
  Word *k, *v;
};

struct ForwardWorkspace {
  Word *rows, *q, *p;
  float *scores, *factors, *o, *out;
};

template <class Unit>
Packed cut_packed(const AttentionArgs& a, Cutter& cutter) {
  Packed p{};
  p.row_words = words<Unit>(a.head_dim);
  p.key_words = kKeys / Unit::kPerWord;
  p.blocks = blocks_of(a.k_len, kKeys);
  const int64_t bytes = p.blocks * (kKeys * p.row_words + a.head_dim * p.key_words) * 4;
  p.count = larger(1, smaller(a.batch * a.kv_heads, kPackedBytes / bytes));
  p.k = cutter.take<Word>(p.count * p.blocks * kKeys * p.row_words);
  p.v = cutter.take<Word>(p.count * p.blocks * a.head_dim * p.key_words);
  return p;
}

template <class Unit>
ForwardWorkspace cut_forward_workspace(const AttentionArgs& a, Cutter& cutter) {
  ForwardWorkspace w{};
  const int64_t row_words = words<Unit>(a.head_dim), d_pad = round_up(a.head_dim, kLanes);
  w.rows = cutter.take<Word>(kQueries * larger(row_words, a.head_dim));
  w.q = cutter.take<Word>(row_words * kQueries);
  w.p = cutter.take<Word>(kKeys * kQueries);
  w.scores = cutter.take<float>(kKeys * kQueries);
  w.factors = cutter.take<float>(a.dropout.p > 0 ? kKeys * kQueries : 0);
  w.o = cutter.take<float>(a.head_dim * kQueries);
  w.out = cutter.take<float>(kQueries * d_pad);
  return w;
}

// Packs block `block` of the (sample, kv head) pair `pair`.
template <class Unit, class T>
void pack_block(const AttentionArgs& a, const Packed& p, Word* temporary, int64_t slot, int64_t pair, int64_t block) {
  const int64_t b = pair / a.kv_heads, kv = pair % a.kv_heads, d = a.head_dim;
  const int64_t first = block * kKeys, count = smaller(kKeys, a.k_len - first), stride = a.kv_heads * d;
  Word* k = p.k + (slot * p.blocks + block) * kKeys * p.row_words;
  const T* src = key_row<T>(a.k, a, b, first, kv);
  for (int64_t j = 0; j < count; ++j) {
    prefetch_row(src + j * stride, stride, d);
    pack_row<Unit>(k + j * p.row_words, src + j * stride, d);
  }
  pack_rows_across<Unit>(temporary, d, key_row<T>(a.v, a, b, first, kv), stride, count, d);
  transpose(p.v + (slot * p.blocks + block) * d * p.key_words, p.key_words, temporary, d, words<Unit>(count), d);
}

// Running maximum and sum of each query, in units of log2, and the factor by which the last block's maximum rescaled
// them.
struct Softmax {
  float top[kQueries], total[kQueries], correction[kQueries];
};

// Computes the probabilities, as words across the keys, from the scores of `count` keys at positions from n on; only
// those of the keys that a step of lanes can see.
template <class Unit>
void softmax_block(const AttentionArgs& a, const QueryBlock& q, const ForwardWorkspace& w, Softmax& s, int64_t head,
                   int64_t n, int64_t count, bool masked) {
  const float scale = a.scale * kLog2e;
  for (int v = 0; v < kVectors; ++v) {
    float* scores = w.scores + v * kLanes;
    const Vf old = load(s.top + v * kLanes);
    Vf top = old;
    const int64_t keys = keys_of_step(q, v, n, count);
    for (int64_t j = 0; j < keys; ++j) {
      Vf x = load(scores + j * kQueries) * scale;
      if (masked) x = sees(q, v, n + j, upper_bound(a, head, n + j)) ? x : splat(-__builtin_inff());
      store(scores + j * kQueries, x);
      top = max(x, top);
    }
    const Vf base = top == -__builtin_inff() ? Vf{} : top, correction = exp2_small(old - base);
    Vf total{};
    for (int64_t j = 0; j < keys; j += 2) {
      Vf p0 = exp2_small(load(scores + j * kQueries) - base);
      Vf p1 = j + 1 < keys ? exp2_small(load(scores + (j + 1) * kQueries) - base) : Vf{};
      total += p0 + p1;
      if (a.dropout.p > 0) {
        p0 *= load(w.factors + j * kQueries + v * kLanes);
        if (j + 1 < keys) p1 *= load(w.factors + (j + 1) * kQueries + v * kLanes);
      }
      store_across<Unit>(w.p + j / Unit::kPerWord * kQueries + v * kLanes, kQueries, p0, p1);
    }
    store(s.top + v * kLanes, top);
    store(s.total + v * kLanes, load(s.total + v * kLanes) * correction + total);
    store(s.correction + v * kLanes, correction);
  }
}

template <class T>
void write_output(const AttentionArgs& a, const QueryBlock& q, const ForwardWorkspace& w, const Softmax& s, int64_t b,
                  int64_t h) {
  const int64_t d = a.head_dim;
  for (int64_t c = 0; c < d; ++c)
    for (int v = 0; v < kVectors; ++v) {
      const Vf total = load(s.total + v * kLanes);
      float* o = w.o + c * kQueries + v * kLanes;
      store(o, total == 0.0f ? Vf{} : load(o) / total);
    }
  transpose(reinterpret_cast<Word*>(w.out), d, reinterpret_cast<const Word*>(w.o), kQueries, d, kQueries);
  for (int64_t i = 0; i < q.count; ++i) {
    T* o = static_cast<T*>(a.o) + ((b * a.q_len + q.first + i) * a.heads + h) * d;
    columns(d, [&](int64_t c, auto part) { store(o + c, load(w.out + i * d + c, part), part); });
    // A query that sees no key has a sum of 0, whose logarithm is -infinity as required.
    a.lse[(b * a.heads + h) * a.q_len + q.first + i] =
        static_cast<float>(static_cast<double>(s.top[i]) * kLn2 + __builtin_log(static_cast<double>(s.total[i])));
  }
}

template <class Unit, class T>
void attend(const AttentionArgs& a, const Packed& packed, const ForwardWorkspace& w, int64_t slot, int64_t b, int64_t h,
            int64_t first) {
  const QueryBlock q(a, b, first);
  const TileSession tiles;
  const int64_t d = a.head_dim;
  pack_transposed<Unit>(w.q, kQueries, w.rows, query_row<T>(a.q, a, b, first, h), a.heads * d, q.count, d);
  Softmax s;
  for (int64_t i = 0; i < kQueries; ++i) s.top[i] = -__builtin_inff(), s.total[i] = 0;
  memset(w.o, 0, static_cast<size_t>(d * kQueries) * sizeof(float));
  const int64_t first_block = larger(0, q.start_min - a.k_offset) / kKeys;
  const int64_t end = smaller(a.k_len, q.p_max + 1 - a.k_offset);
  for (int64_t block = first_block; block * kKeys < end; ++block) {
    const int64_t j = block * kKeys, n = a.k_offset + j, count = smaller(kKeys, a.k_len - j);
    const Visibility seen = visibility(a, q, h, j, count);
    if (seen == Visibility::none) continue;
    const Word* k = packed.k + (slot * packed.blocks + block) * kKeys * packed.row_words;
    const Word* v = packed.v + (slot * packed.blocks + block) * d * packed.key_words;
    const Product2d qk{w.scores, kQueries, k, packed.row_words, w.q, kQueries, packed.row_words, false, nullptr};
    for_vectors(q, n, count, [&](int first_vector, int vectors, int64_t keys) {
      multiply<Unit>(from_vector(qk, first_vector), keys, vectors);
    });
    if (a.dropout.p > 0) dropout_tile(w.factors, a, q, b, h, n, count);
    softmax_block<Unit>(a, q, w, s, h, n, count, seen == Visibility::some);
    for_vectors(q, n, count, [&](int first_vector, int vectors, int64_t keys) {
      const Product2d pv{w.o, kQueries, v, packed.key_words, w.p, kQueries, words<Unit>(keys), true, s.correction};
      multiply<Unit>(from_vector(pv, first_vector), d, vectors);
    });
  }
  write_output<T>(a, q, w, s, b, h);
}

template <class T>
void run_forward(const AttentionArgs& a) {
  using Unit = typename UnitOf<T>::type;
  Cutter cutter{a.scratch};
  const Packed packed = cut_packed<Unit>(a, cutter);
  Cutter measure{nullptr};
  cut_forward_workspace<Unit>(a, measure);
  std::byte* workspaces = a.scratch + cutter.used;
  const auto workspace_of = [&](int thread) {
    Cutter own{workspaces + measure.used * static_cast<size_t>(thread)};
    return cut_forward_workspace<Unit>(a, own);
  };
  const int64_t pairs = a.batch * a.kv_heads, group = a.heads / a.kv_heads, q_blocks = blocks_of(a.q_len, kQueries);
  for (int64_t pair = 0; pair < pairs; pair += packed.count) {
    const int64_t count = smaller(packed.count, pairs - pair);
    parallel_each(count * packed.blocks, [&](int64_t i, int thread) {
      pack_block<Unit, T>(a, packed, reinterpret_cast<Word*>(workspace_of(thread).o), i / packed.blocks,
                          pair + i / packed.blocks, i % packed.blocks);
    });
    // The last queries of a head see the most keys: they come first, and each thread's share has some of every length.
    parallel_each(count * group * q_blocks, [&](int64_t i, int thread) {
      const int64_t q_block = q_blocks - 1 - i % q_blocks, head = i / q_blocks, slot = head / group;
      const int64_t b = (pair + slot) / a.kv_heads, h = (pair + slot) % a.kv_heads * group + head % group;
      attend<Unit, T>(a, packed, workspace_of(thread), slot, b, h, q_block * kQueries);
    });
  }
}

template <class T>
size_t forward_scratch(const AttentionArgs& a) {
  using Unit = typename UnitOf<T>::type;
  Cutter shared{nullptr}, own{nullptr};
  cut_packed<Unit>(a, shared);
  cut_forward_workspace<Unit>(a, own);
  return shared.used + own.used * static_cast<size_t>(a.threads);
}

}  // namespace

size_t attention_scratch(const AttentionArgs& a) {
  return a.bf16 ? forward_scratch<bf16>(a) : forward_scratch<float>(a);
}

void attention(const AttentionArgs& a) {
  if (a.bf16)
    run_forward<bf16>(a);
  else
    run_forward<float>(a);
}

}  // namespace fp::cpu::FP_ISA
