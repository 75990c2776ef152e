#include "ops/calls/heads.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

constexpr double kRotationFlops = 3;  // per element

void rotation(const Checks& op, const fp::Rope& rope, const Tensor& positions, int64_t tokens, int64_t head_dim) {
  FP_CHECK(head_dim % 2 == 0, "{}: head size {}, expected even to rotate", op.name, head_dim);
  op.compute("rope.cos", rope.cos);
  op.matrix("rope.cos", rope.cos, DType::f32, rope.cos.rows(), head_dim / 2);
  op.same("rope.sin", rope.sin, rope.cos);
  op.count("positions", positions, DType::i32, tokens);
}

void heads(const Checks& op, const Tensor& qkv, const Tensor& q, const Tensor& k, const Tensor& v, const HeadLayout& l,
           const fp::Rope& rope, const Tensor& positions) {
  FP_CHECK(l.heads > 0 && l.kv_heads > 0 && l.head_dim > 0 && l.heads % l.kv_heads == 0,
           "{}: {} heads of {} on {} kv heads, expected a multiple", op.name, l.heads, l.head_dim, l.kv_heads);
  op.compute("qkv", qkv);
  const int64_t tokens = qkv.rows();
  op.matrix("qkv", qkv, qkv.dtype, tokens, l.columns());
  op.matrix("q", q, qkv.dtype, tokens * l.heads, l.head_dim);
  op.matrix("k", k, qkv.dtype, tokens * l.kv_heads, l.head_dim);
  op.matrix("v", v, qkv.dtype, tokens * l.kv_heads, l.head_dim);
  if (!rope.cos) return op.empty("rope.sin", rope.sin, "as rope.cos is");
  rotation(op, rope, positions, tokens, l.head_dim);
}

// Bytes of the tables and positions of `tokens` tokens: each reads its row of the tables once; all heads use it.
double rope_bytes(const fp::Rope& rope, const Tensor& positions, int64_t tokens) {
  if (!rope.cos) return 0.0;
  const double row = 2 * static_cast<double>(rope.cos.cols()) * static_cast<double>(size_of(DType::f32));
  return bytes_of(positions) + static_cast<double>(tokens) * row;
}

template <class Call>
OpWork split(const Call& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& fused) {
  return work(c, fused.dtype, c.rope.cos ? kRotationFlops * (count_of(q) + count_of(k)) : 0.0,
              bytes_of(q, k, v, fused) + rope_bytes(c.rope, c.positions, fused.rows()));
}

}  // namespace

void check(const SplitQkv& c) { heads(Checks(c), c.qkv, c.q, c.k, c.v, c.layout, c.rope, c.positions); }
OpWork cost(const SplitQkv& c) { return split(c, c.q, c.k, c.v, c.qkv); }

void check(const SplitQkvBackward& c) { heads(Checks(c), c.dqkv, c.dq, c.dk, c.dv, c.layout, c.rope, c.positions); }
OpWork cost(const SplitQkvBackward& c) { return split(c, c.dq, c.dk, c.dv, c.dqkv); }

void check(const Rope& c) {
  const Checks op(c);
  op.compute("x", c.x);
  op.rank("x", c.x, 3);
  op.exactly("y", c.y, c.x.dtype, c.x.shape);
  rotation(op, c.rope, c.positions, c.x.shape[0], c.x.cols());
}
OpWork cost(const Rope& c) {
  return work(c, c.y.dtype, kRotationFlops * count_of(c.y),
              bytes_of(c.y, c.x) + rope_bytes(c.rope, c.positions, c.x.shape[0]));
}

}  // namespace fp::calls
