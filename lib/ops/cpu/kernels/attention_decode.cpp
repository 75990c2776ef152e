// Attention for a few queries (generation with a KV cache): keys and values are read once, without packing. The keys of
// a query are divided into chunks of fixed size for the threads; the results of the chunks are merged in order.
#include "ops/cpu/kernels/attention_tile.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

constexpr int64_t kChunk = 512;

struct Partial {
  float top, total;  // maximum in units of log2, sum of powers
};

struct Query {
  int64_t b, h, i;  // sample, head, query
  Query(const AttentionArgs& a, int64_t index)
      : b(index / (a.heads * a.q_len)), h(index / a.q_len % a.heads), i(index % a.q_len) {}
};

// `q` holds the head columns of a row in f32, padded with zeros to a whole vector.
template <class T>
FP_INLINE float dot(const float* q, const T* k, int64_t d) {
  Vf total{};
  columns(d, [&](int64_t c, auto w) { total += load(q + c) * load(k + c, w); });
  return sum(total);
}

template <class T>
void attend_chunk(const AttentionArgs& a, const Query& at, int64_t first, Partial& out, float* o) {
  const int64_t d = a.head_dim, kv = at.h / (a.heads / a.kv_heads), stride = a.kv_heads * d;
  const int64_t p = a.q_offset + at.i, end = smaller(first + kChunk, a.k_len);
  int64_t start = a.doc_start == nullptr ? 0 : a.doc_start[at.b * a.q_len + at.i];
  if (a.window > 0) start = larger(start, p - a.window + 1);
  const T* k = key_row<T>(a.k, a, at.b, 0, kv);
  const T* v = key_row<T>(a.v, a, at.b, 0, kv);
  alignas(64) float q[kMaxDecodeHead + kLanes] = {}, scores[kChunk];
  columns(d, [&](int64_t c, auto w) { store(q + c, load(query_row<T>(a.q, a, at.b, at.i, at.h) + c, w), w); });
  float top = -__builtin_inff();
  for (int64_t j = first; j < end; ++j) {
    const int64_t n = a.k_offset + j;
    const bool seen = n >= start && n <= p && p < upper_bound(a, at.h, n);
    const float s = seen ? dot(q, k + j * stride, d) * (a.scale * kLog2e) : -__builtin_inff();
    scores[j - first] = s;
    top = s > top ? s : top;
  }
  for (int64_t j = end - first; j % kLanes != 0; ++j) scores[j] = -__builtin_inff();
  const float base = top == -__builtin_inff() ? 0.0f : top;
  Vf total{};
  for (int64_t j = 0; j < end - first; j += kLanes) {
    const Vf x = exp2_small(load(scores + j) - base);
    store(scores + j, x);
    total += x;
  }
  memset(o, 0, static_cast<size_t>(d) * sizeof(float));
  for (int64_t j = first; j < end; ++j) {
    const float x = scores[j - first];
    if (x == 0.0f) continue;
    columns(d, [&](int64_t c, auto w) { store(o + c, load(o + c, w) + load(v + j * stride + c, w) * x, w); });
  }
  out = {top, sum(total)};
}

template <class T>
void merge(const AttentionArgs& a, const Query& at, int64_t chunks, const Partial* partial, float* o) {
  float top = -__builtin_inff();
  for (int64_t c = 0; c < chunks; ++c) top = partial[c].top > top ? partial[c].top : top;
  const float base = top == -__builtin_inff() ? 0.0f : top;
  float total = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    const float weight = exp2_small(splat(partial[c].top - base))[0];
    total += partial[c].total * weight;
    columns(a.head_dim, [&](int64_t e, auto w) {
      const Vf x = load(o + c * a.head_dim + e, w) * weight;
      store(o + e, c == 0 ? x : load(o + e, w) + x, w);
    });
  }
  T* dst = static_cast<T*>(a.o) + ((at.b * a.q_len + at.i) * a.heads + at.h) * a.head_dim;
  columns(a.head_dim, [&](int64_t e, auto w) { store(dst + e, total == 0.0f ? Vf{} : load(o + e, w) / total, w); });
  a.lse[(at.b * a.heads + at.h) * a.q_len + at.i] =
      static_cast<float>(static_cast<double>(top) * kLn2 + __builtin_log(static_cast<double>(total)));
}

struct Cut {
  int64_t queries, chunks;
  Partial* partial;
  float* o;
};

Cut cut(const AttentionArgs& a, Cutter& cutter) {
  Cut c{a.batch * a.heads * a.q_len, larger(1, blocks_of(a.k_len, kChunk)), nullptr, nullptr};
  c.partial = cutter.take<Partial>(c.queries * c.chunks);
  c.o = cutter.take<float>(c.queries * c.chunks * a.head_dim);
  return c;
}

}  // namespace

size_t attention_decode_scratch(const AttentionArgs& a) {
  Cutter cutter{nullptr};
  cut(a, cutter);
  return cutter.used;
}

void attention_decode(const AttentionArgs& a) {
  Cutter cutter{a.scratch};
  const Cut c = cut(a, cutter);
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_each(c.queries * c.chunks, [&](int64_t item, int) {
      attend_chunk<T>(a, Query(a, item / c.chunks), item % c.chunks * kChunk, c.partial[item], c.o + item * a.head_dim);
    });
    parallel_for(c.queries, 16, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q)
        merge<T>(a, Query(a, q), c.chunks, c.partial + q * c.chunks, c.o + q * c.chunks * a.head_dim);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
