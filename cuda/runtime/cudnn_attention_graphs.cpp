#include "cuda/runtime/cudnn_attention_graphs.h"

#include <limits>

namespace fp::cuda {
namespace {

using cudnn_api::Dims;
using cudnn_api::Graph;
using cudnn_api::Value;

// A graph under construction: its dimensions, and helpers for operations that attention repeats.
struct Pattern {
  Graph graph;
  int64_t batch, heads, kv_heads, rows, columns, d;
  int64_t slices;  // of the heads of a row in memory, of which the graph processes one

  explicit Pattern(const AttentionShape& s, int64_t slices_of_heads = 1)
      : batch(s.batch),
        heads(s.heads),
        kv_heads(s.kv_heads),
        rows(s.queries),
        columns(s.keys),
        d(s.head_dim),
        slices(slices_of_heads) {}

  Dims scores() const { return {batch, heads, rows, columns}; }
  Dims per_row() const { return {batch, heads, rows, 1}; }

  // A tensor [batch, n, h * slices, d] in memory, seen as [batch, h, n, d], or with its last two dimensions exchanged.
  Value operand(int64_t n, int64_t h) {
    const int64_t row = h * slices * d;
    return graph.tensor(DType::bf16, {batch, h, n, d}, {n * row, d, row, 1});
  }
  Value transposed_operand(int64_t n, int64_t h) {
    const int64_t row = h * slices * d;
    return graph.tensor(DType::bf16, {batch, h, d, n}, {n * row, d, 1, row});
  }
  Value row_statistic() { return graph.tensor(DType::f32, per_row(), cudnn_api::packed(per_row())); }

  Value on_scores(cudnnPointwiseMode_t mode, std::initializer_list<Value> in) {
    return graph.pointwise(mode, in, graph.intermediate(scores()));
  }
  Value on_rows(cudnnPointwiseMode_t mode, std::initializer_list<Value> in) {
    return graph.pointwise(mode, in, graph.intermediate(per_row()));
  }
  Value rounded(const Dims& dims) { return graph.intermediate(dims, CUDNN_DATA_BFLOAT16); }
  // Transposed and rounded scores: the left operand of the products for dk and dv.
  Value transposed_scores(const Value& x) {
    const Value out = graph.intermediate({batch, heads, columns, rows}, CUDNN_DATA_BFLOAT16,
                                         {heads * rows * columns, rows * columns, 1, columns});
    return graph.reshape(x, out);
  }

  Value index(const Value& x, int64_t axis) {
    return graph.row_or_column(x, axis, graph.intermediate(scores(), CUDNN_DATA_INT32));
  }
  // x where left <comparison> right, -infinity elsewhere.
  Value keep_where(const Value& x, cudnnPointwiseMode_t comparison, const Value& left, const Value& right) {
    const Value mask = graph.pointwise(comparison, {left, right}, graph.intermediate(scores(), CUDNN_DATA_BOOLEAN));
    return on_scores(CUDNN_POINTWISE_BINARY_SELECT, {x, graph.constant(-std::numeric_limits<float>::infinity()), mask});
  }
};

// Masks scores: causal, within the window, within the document. The definition is attends() in ops/calls/attention.h.
Value masked(Pattern& p, Value x, const AttentionShape& shape, const AttentionSpec& spec, const Value* doc_start) {
  if (doc_start != nullptr) x = p.keep_where(x, CUDNN_POINTWISE_CMP_GE, p.index(x, 3), *doc_start);
  if (sees_all_keys(shape, spec)) return x;
  x = p.keep_where(x, CUDNN_POINTWISE_CMP_GE, p.index(x, 2), p.index(x, 3));
  const BandBounds band = band_bounds(shape, spec);
  if (!band.has_left) return x;
  const Value reach =
      p.graph.pointwise(CUDNN_POINTWISE_ADD, {p.index(x, 3), p.graph.constant(static_cast<float>(band.left))},
                        p.graph.intermediate(p.scores()));
  return p.keep_where(x, CUDNN_POINTWISE_CMP_GT, reach, p.index(x, 2));
}

Value document_starts(Pattern& p, bool has_documents) {
  if (!has_documents) return {};
  return p.graph.tensor(DType::i32, {p.batch, 1, p.rows, 1}, {p.rows, p.rows, 1, 1});
}

}  // namespace

ForwardGraph forward_graph(const AttentionShape& shape, const AttentionSpec& spec, bool has_documents,
                           const cudnn_api::Target& target) {
  Pattern p(shape);
  Graph& g = p.graph;
  const Value q = p.operand(p.rows, p.heads), k = p.transposed_operand(p.columns, p.kv_heads);
  const Value v = p.operand(p.columns, p.kv_heads), o = p.operand(p.rows, p.heads);
  const Value lse = p.row_statistic(), doc_start = document_starts(p, has_documents);

  Value s = g.matmul(q, k, g.intermediate(p.scores()));
  s = p.on_scores(CUDNN_POINTWISE_MUL, {s, g.constant(static_cast<float>(spec.scale))});
  s = masked(p, s, shape, spec, has_documents ? &doc_start : nullptr);

  const Value maximum = g.reduce(CUDNN_REDUCE_TENSOR_MAX, s, g.intermediate(p.per_row()));
  const Value shifted = p.on_scores(CUDNN_POINTWISE_SUB, {s, maximum});
  const Value exponentials = p.on_scores(CUDNN_POINTWISE_EXP, {shifted});
  const Value sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, g.intermediate(p.per_row()));
  g.pointwise(CUDNN_POINTWISE_ADD, {maximum, p.on_rows(CUDNN_POINTWISE_LOG, {sum})}, lse);
  const Value probabilities = g.pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum}, p.rounded(p.scores()));
  g.matmul(probabilities, v, o);
  return {q, k, v, o, lse, doc_start, g.build(target)};
}

BackwardGraph backward_graph(const AttentionShape& whole, const AttentionSlice& slice, const AttentionSpec& spec,
                             bool has_documents, const cudnn_api::Target& target) {
  const AttentionShape shape = shape_of(slice, whole);
  Pattern p(shape, whole.kv_heads / slice.kv_heads);
  Graph& g = p.graph;
  const Value q = p.operand(p.rows, p.heads), k = p.transposed_operand(p.columns, p.kv_heads);
  const Value v = p.transposed_operand(p.columns, p.kv_heads), o = p.operand(p.rows, p.heads);
  const Value lse = p.row_statistic(), d_o = p.operand(p.rows, p.heads), dq = p.operand(p.rows, p.heads);
  const Value dk = p.operand(p.columns, p.kv_heads), dv = p.operand(p.columns, p.kv_heads);
  const Value row_sums = p.row_statistic(), doc_start = document_starts(p, has_documents);
  const Value scale = g.constant(static_cast<float>(spec.scale));

  const Value products = g.pointwise(CUDNN_POINTWISE_MUL, {d_o, o}, g.intermediate({p.batch, p.heads, p.rows, p.d}));
  const Value sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, g.intermediate(p.per_row()));
  g.pointwise(CUDNN_POINTWISE_MUL, {sums, g.constant(1.0f)}, row_sums);

  // Products for dk and dv are per query head; with fewer kv heads, the products of a group are added up.
  const auto per_kv_head = [&](const Value& left, const Value& right, const Value& out) {
    if (p.heads == p.kv_heads) return g.matmul(left, right, out);
    const Value all = g.matmul(left, right, p.rounded({p.batch, p.heads, p.columns, p.d}));
    return g.reduce(CUDNN_REDUCE_TENSOR_ADD, all, out);
  };

  Value s = g.matmul(q, k, g.intermediate(p.scores()));
  s = p.on_scores(CUDNN_POINTWISE_MUL, {s, scale});
  s = p.on_scores(CUDNN_POINTWISE_SUB, {s, lse});
  s = masked(p, s, shape, spec, has_documents ? &doc_start : nullptr);
  const Value probabilities = p.on_scores(CUDNN_POINTWISE_EXP, {s});
  per_kv_head(p.transposed_scores(probabilities), d_o, dv);

  Value ds = g.matmul(d_o, v, g.intermediate(p.scores()));
  ds = p.on_scores(CUDNN_POINTWISE_SUB, {ds, row_sums});
  ds = p.on_scores(CUDNN_POINTWISE_MUL, {ds, probabilities});
  ds = p.on_scores(CUDNN_POINTWISE_MUL, {ds, scale});
  per_kv_head(p.transposed_scores(ds), q, dk);
  const Dims k_dims{p.batch, p.kv_heads, p.columns, p.d};
  const Value k_again = g.reshape(
      k, g.intermediate(k_dims, CUDNN_DATA_BFLOAT16, {k.strides[0], k.strides[1], k.strides[3], k.strides[2]}));
  // dq is computed from all of ds, which cuDNN keeps in its workspace: adding to dq tile by tile would need atomics.
  g.matmul(ds, k_again, dq);
  return {q, k, v, o, lse, d_o, dq, dk, dv, doc_start, row_sums, g.build(target)};
}

}  // namespace fp::cuda
