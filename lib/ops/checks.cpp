#include "ops/checks.h"

#include <limits>

#include "ops/checks_op.h"

namespace fp::checks {
namespace {

void gated(const Op& op, const Tensor& x, const char* wide, const Tensor& y, const char* narrow,
           const ActivationSpec& s) {
  op.compute(narrow, y);
  op.matrix(wide, x, y.dtype, y.rows(), s.inputs(y.cols()));
  FP_CHECK(s.limit >= 0.0, "{}: limit is {}, expected at least 0", op.name, s.limit);
}

void heads(const Op& op, const Tensor& qkv, const Tensor& q, const Tensor& k, const Tensor& v, const HeadLayout& l,
           const Rope& rope, const Tensor& positions) {
  FP_CHECK(l.heads > 0 && l.kv_heads > 0 && l.head_dim > 0 && l.heads % l.kv_heads == 0,
           "{}: {} heads of {} on {} kv heads, expected a multiple", op.name, l.heads, l.head_dim, l.kv_heads);
  op.compute("qkv", qkv);
  const int64_t tokens = qkv.rows();
  op.matrix("qkv", qkv, qkv.dtype, tokens, l.columns());
  op.matrix("q", q, qkv.dtype, tokens * l.heads, l.head_dim);
  op.matrix("k", k, qkv.dtype, tokens * l.kv_heads, l.head_dim);
  op.matrix("v", v, qkv.dtype, tokens * l.kv_heads, l.head_dim);
  if (!rope.cos) return op.empty("rope.sin", rope.sin, "as rope.cos is");
  FP_CHECK(l.head_dim % 2 == 0, "{}: head size {}, expected even to rotate", op.name, l.head_dim);
  op.matrix("rope.cos", rope.cos, DType::f32, rope.cos.rows(), l.head_dim / 2);
  op.same("rope.sin", rope.sin, rope.cos);
  op.count("positions", positions, DType::i32, tokens);
}

void core(const Op& op, const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
          const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& s) {
  op.compute("q", q);
  op.rank("q", q, 4);
  op.rank("k", k, 4);
  const int64_t B = q.shape[0], Tq = q.shape[1], H = q.shape[2], d = q.shape[3], Tk = k.shape[1], K = k.shape[2];
  FP_CHECK(K > 0 && H % K == 0, "{}: {} heads on {} kv heads, expected a multiple", op.name, H, K);
  op.exactly("k", k, q.dtype, {B, Tk, K, d});
  op.exactly("v", v, q.dtype, {B, Tk, K, d});
  op.exactly("o", o, q.dtype, {B, Tq, H, d});
  op.exactly("lse", lse, DType::f32, {B, H, Tq});
  if (doc_start) op.exactly("doc_start", doc_start, DType::i32, {B, Tq});
  op.drop(s.dropout, sample_ids, B);
  FP_CHECK(s.window >= 0 && s.q_offset >= 0 && s.k_offset >= 0 && s.first_head >= 0,
           "{}: window {}, q_offset {}, k_offset {}, first_head {}: expected none below 0", op.name, s.window,
           s.q_offset, s.k_offset, s.first_head);
  FP_CHECK(s.block >= 0 && (s.block == 0 || (s.local_blocks >= 0 && s.vertical_stride > 0)),
           "{}: blocksparse block {}, local blocks {}, vertical stride {}: expected a positive stride", op.name,
           s.block, s.local_blocks, s.vertical_stride);
}

void vocabulary(const Op& op, const Tensor& logits, const Tensor& targets, const Vocabulary& v) {
  op.compute("logits", logits);
  op.count("targets", targets, DType::i32, logits.rows());
  FP_CHECK(v.first_id >= 0 && v.valid_ids > 0, "{}: first id {}, valid ids {}: expected at least 0 and 1", op.name,
           v.first_id, v.valid_ids);
  if (v.masked_ids) op.count("masked_ids", v.masked_ids, DType::i32, v.masked_ids.elements());
}

}  // namespace

void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  const Op op{"linear"};
  op.compute("x", x);
  op.rank("w", w, 2);
  op.exactly("w", w, x.dtype, {w.shape[0], x.cols()});
  op.matrix("y", y, x.dtype, x.rows(), w.shape[0]);
  if (bias) op.count("bias", bias, x.dtype, w.shape[0]);
}

void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) {
  const Op op{"linear_backward_input"};
  op.compute("dy", dy);
  op.rank("w", w, 2);
  op.exactly("w", w, dy.dtype, {dy.cols(), w.shape[1]});
  op.matrix("dx", dx, dy.dtype, dy.rows(), w.shape[1]);
}

void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x) {
  const Op op{"linear_backward_weight"};
  op.compute("dy", dy);
  op.compute("x", x);
  op.matrix("x", x, dy.dtype, dy.rows(), x.cols());
  op.exactly("dw", dw, DType::f32, {dy.cols(), x.cols()});
}

void bias_backward(const Tensor& db, const Tensor& dy) {
  const Op op{"bias_backward"};
  op.compute("dy", dy);
  op.count("db", db, DType::f32, dy.cols());
}

void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
               const Tensor& positions_table) {
  const Op op{"embedding"};
  op.compute("table", table);
  op.rank("table", table, 2);
  op.compute("y", y);
  op.matrix("y", y, table.dtype, y.rows(), table.cols());
  op.count("ids", ids, DType::i32, y.rows());
  if (!positions_table) return op.empty("positions", positions, "as positions_table is");
  op.matrix("positions_table", positions_table, table.dtype, positions_table.rows(), table.cols());
  op.count("positions", positions, DType::i32, y.rows());
}

void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids) {
  const Op op{"embedding_backward"};
  op.compute("dy", dy);
  op.rank("dtable", dtable, 2);
  op.exactly("dtable", dtable, DType::f32, {dtable.shape[0], dy.cols()});
  op.count("ids", ids, DType::i32, dy.rows());
}

void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
          const Tensor& gain, const Tensor& bias, const NormSpec& s) {
  const Op op{"norm"};
  op.compute("x", x);
  op.same("y", y, x);
  if (residual) {
    op.same("residual", residual, x);
    op.same("sum", sum, x);
  } else {
    op.empty("sum", sum, "as residual is");
  }
  op.matrix("stats", stats, DType::f32, x.rows(), 2);
  op.count("gain", gain, x.dtype, x.cols());
  if (bias) op.count("bias", bias, x.dtype, x.cols());
  FP_CHECK(s.eps >= 0.0, "norm: eps is {}, expected at least 0", s.eps);
}

void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& gain) {
  const Op op{"norm_backward_input"};
  op.compute("x", x);
  op.same("dy", dy, x);
  op.same("dx", dx, x);
  op.matrix("stats", stats, DType::f32, x.rows(), 2);
  op.count("gain", gain, x.dtype, x.cols());
}

void norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                          const Tensor& stats) {
  const Op op{"norm_backward_weight"};
  op.compute("x", x);
  op.same("dy", dy, x);
  op.matrix("stats", stats, DType::f32, x.rows(), 2);
  op.count("dgain", dgain, DType::f32, x.cols());
  if (dbias) op.count("dbias", dbias, DType::f32, x.cols());
}

void activation(const Tensor& y, const Tensor& x, const ActivationSpec& s) { gated({"activation"}, x, "x", y, "y", s); }

void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec& s) {
  const Op op{"activation_backward"};
  gated(op, x, "x", dy, "dy", s);
  op.same("dx", dx, x);
}

void add(const Tensor& y, const Tensor& a, const Tensor& b) {
  const Op op{"add"};
  op.compute("a", a);
  op.count("b", b, a.dtype, a.elements());
  op.count("y", y, a.dtype, a.elements());
}

void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, const Dropout& d) {
  const Op op{"dropout"};
  op.compute("x", x);
  op.rank("x", x, 3);
  op.exactly("y", y, x.dtype, x.shape);
  op.drop(d, sample_ids, x.shape[0]);
}

void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout& l,
               const Rope& rope, const Tensor& positions) {
  heads({"split_qkv"}, qkv, q, k, v, l, rope, positions);
}

void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv, const HeadLayout& l,
                        const Rope& rope, const Tensor& positions) {
  heads({"split_qkv_backward"}, dqkv, dq, dk, dv, l, rope, positions);
}

void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& s) {
  core({"attention"}, o, lse, q, k, v, doc_start, sample_ids, s);
}

void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                        const Tensor& sample_ids, const AttentionSpec& s) {
  const Op op{"attention_backward"};
  core(op, o, lse, q, k, v, doc_start, sample_ids, s);
  op.exactly("d_o", d_o, q.dtype, o.shape);
  op.exactly("dq", dq, q.dtype, q.shape);
  op.exactly("dk", dk, q.dtype, k.shape);
  op.exactly("dv", dv, q.dtype, v.shape);
}

void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) {
  const Op op{"attention_merge"};
  op.rank("o", o, 4);
  op.exactly("o", o, DType::f32, o.shape);
  op.compute("o_part", o_part);
  op.exactly("o_part", o_part, o_part.dtype, o.shape);
  op.exactly("lse", lse, DType::f32, {o.shape[0], o.shape[2], o.shape[1]});
  op.exactly("lse_part", lse_part, DType::f32, lse.shape);
}

void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets, const Vocabulary& v) {
  const Op op{"softmax_stats"};
  vocabulary(op, logits, targets, v);
  op.matrix("stats", stats, DType::f32, logits.rows(), 3);
}

void softmax_stats_merge(const Tensor& stats, const Tensor& parts) {
  const Op op{"softmax_stats_merge"};
  op.rank("parts", parts, 3);
  op.exactly("parts", parts, DType::f32, {parts.shape[0], parts.shape[1], 3});
  op.matrix("stats", stats, DType::f32, parts.shape[1], 3);
}

void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) {
  const Op op{"cross_entropy"};
  op.compute("loss", loss);
  op.matrix("loss", loss, DType::f32, loss.rows(), 2);
  op.matrix("stats", stats, DType::f32, loss.rows(), 3);
  op.count("targets", targets, DType::i32, loss.rows());
}

void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets, const Vocabulary& v) {
  const Op op{"cross_entropy_backward"};
  vocabulary(op, logits, targets, v);
  op.matrix("loss", loss, DType::f32, logits.rows(), 2);
}

void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) {
  const Op op{"sum_squares"};
  op.count("x", x, DType::f32, x.elements());
  op.count("sums", sums, DType::f32, static_cast<int64_t>(segments.size()));
  for (const Segment& s : segments)
    FP_CHECK(s.offset >= 0 && s.count >= 0 && s.offset + s.count <= x.elements(),
             "sum_squares: segment [{}, {}) of {} elements", s.offset, s.offset + s.count, x.elements());
}

void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
           const AdamW& a, const AdamWSums& sums) {
  const Op op{"adamw"};
  const int64_t n = param.elements();
  op.count("param", param, DType::f32, n);
  op.count("m", m, DType::f32, n);
  op.count("v", v, DType::f32, n);
  op.count("grad", grad, DType::f32, n);
  if (weights) op.count("weights", weights, DType::bf16, n);
  if (sums.gradient) op.matrix("sums.gradient", sums.gradient, DType::f32, 1, 2);
  if (sums.bits) op.matrix("sums.bits", sums.bits, DType::i32, 4, 2);
  FP_CHECK(a.step >= 1, "adamw: step is {}, expected at least 1", a.step);
}

void copy(const Tensor& dst, const Tensor& src) { Op{"copy"}.count("dst", dst, src.dtype, src.elements()); }

void cast(const Tensor& dst, const Tensor& src) {
  const Op op{"cast"};
  op.compute("src", src);
  op.count("dst", dst, src.dtype == DType::f32 ? DType::bf16 : DType::f32, src.elements());
}

void round_stochastically(const Tensor& dst, const Tensor& src) {
  const Op op{"round_stochastically"};
  op.count("src", src, DType::f32, src.elements());
  op.count("dst", dst, DType::bf16, src.elements());
}

void permute(const Tensor& y, const Tensor& x, std::span<const int> order) {
  const Op op{"permute"};
  FP_CHECK(x && (x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::i32),
           "permute: x is {}, expected fp32, bf16 or i32", describe(x));
  const int rank = x.shape.rank();
  Shape expected;
  unsigned seen = 0;
  for (const int from : order) {
    const bool fresh = from >= 0 && from < rank && (seen >> from & 1u) == 0;
    FP_CHECK(fresh, "permute: order names dimension {} of x {}, expected each of them once", from, x.shape.str());
    seen |= 1u << from;
    expected.push_back(x.shape[from]);
  }
  FP_CHECK(rank > 0 && expected.rank() == rank, "permute: an order of {} dimensions for x {}", order.size(),
           x.shape.str());
  op.exactly("y", y, x.dtype, expected);
}

void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count) {
  const Op op{"copy_columns"};
  op.compute("x", x);
  op.compute("y", y);
  op.matrix("y", y, x.dtype, x.rows(), y.cols());
  const auto within = [count](int64_t first, const Tensor& t) { return first >= 0 && count <= t.cols() - first; };
  FP_CHECK(count >= 0 && within(y_first, y) && within(x_first, x),
           "copy_columns: columns [{}, {}) of y {} from [{}, {}) of x {}", y_first, y_first + count, y.shape.str(),
           x_first, x_first + count, x.shape.str());
}

void find_nonfinite(const Tensor& first, const Tensor& x) {
  const Op op{"find_nonfinite"};
  op.compute("x", x);
  FP_CHECK(x.cols() <= std::numeric_limits<int32_t>::max(), "find_nonfinite: x is {}, expected fewer than 2^31 columns",
           describe(x));
  op.count("first", first, DType::i32, x.rows());
}

void bit_sums(const Tensor& sums, const Tensor& x) {
  const Op op{"bit_sums"};
  op.compute("x", x);
  op.count("sums", sums, DType::i32, 2);
}

void piece_sums(const Tensor& sums, const Tensor& x) {
  const Op op{"piece_sums"};
  op.compute("x", x);
  op.matrix("sums", sums, DType::f32, sums.rows(), 2);
  FP_CHECK(sums.rows() > 0 && x.elements() % sums.rows() == 0, "piece_sums: {} elements in {} pieces", x.elements(),
           sums.rows());
}

}  // namespace fp::checks
