#include "ops/calls/attention.h"

#include "ops/calls/checks.h"
#include "ops/calls/pairs.h"

namespace fp::calls {
namespace {

template <class Call>
void core(const Checks& op, const Call& c) {
  const AttentionSpec& s = c.spec;
  op.compute("q", c.q);
  op.rank("q", c.q, 4);
  op.rank("k", c.k, 4);
  const int64_t B = c.q.shape[0], Tq = c.q.shape[1], H = c.q.shape[2], d = c.q.shape[3], Tk = c.k.shape[1],
                K = c.k.shape[2];
  FP_CHECK(K > 0 && H % K == 0, "{}: {} heads on {} kv heads, expected a multiple", op.name, H, K);
  op.exactly("k", c.k, c.q.dtype, {B, Tk, K, d});
  op.exactly("v", c.v, c.q.dtype, {B, Tk, K, d});
  op.exactly("o", c.o, c.q.dtype, {B, Tq, H, d});
  op.exactly("lse", c.lse, DType::f32, {B, H, Tq});
  if (c.doc_start) op.exactly("doc_start", c.doc_start, DType::i32, {B, Tq});
  op.drop(s.dropout, c.sample_ids, B);
  FP_CHECK(s.window >= 0 && s.q_offset >= 0 && s.k_offset >= 0 && s.first_head >= 0,
           "{}: window {}, q_offset {}, k_offset {}, first_head {}: expected none below 0", op.name, s.window,
           s.q_offset, s.k_offset, s.first_head);
  FP_CHECK(s.block >= 0 && (s.block == 0 || (s.local_blocks >= 0 && s.vertical_stride > 0)),
           "{}: blocksparse block {}, local blocks {}, vertical stride {}: expected a positive stride", op.name,
           s.block, s.local_blocks, s.vertical_stride);
}

// The work of `products` products over the visible pairs; the softmax between them is left out of the FLOPs, as is
// usual.
template <class Call>
OpWork core_work(const Call& c, const Tensor& computed, int products, double bytes) {
  const int64_t pairs = visible_pairs(c.spec, c.q.shape[2], c.q.shape[1], c.k.shape[1]);
  const double scores = static_cast<double>(c.q.shape[0]) * static_cast<double>(pairs);
  OpWork w = work(c, computed.dtype, 2.0 * products * static_cast<double>(c.q.shape[3]) * scores, bytes);
  w.scores = scores;
  return w;
}

}  // namespace

void check(const Attention& c) { core(Checks(c), c); }
OpWork cost(const Attention& c) {
  return core_work(c, c.o, 2, bytes_of(c.o, c.lse, c.q, c.k, c.v, c.doc_start, c.sample_ids));
}

void check(const AttentionMerge& c) {
  const Checks op(c);
  op.rank("o", c.o, 4);
  op.exactly("o", c.o, DType::f32, c.o.shape);
  op.compute("o_part", c.o_part);
  op.exactly("o_part", c.o_part, c.o_part.dtype, c.o.shape);
  op.exactly("lse", c.lse, DType::f32, {c.o.shape[0], c.o.shape[2], c.o.shape[1]});
  op.exactly("lse_part", c.lse_part, DType::f32, c.lse.shape);
}
OpWork cost(const AttentionMerge& c) {
  return work(c, c.o.dtype, 3 * count_of(c.o), 2 * bytes_of(c.o, c.lse) + bytes_of(c.o_part, c.lse_part));
}

void check(const AttentionBackward& c) {
  const Checks op(c);
  core(op, c);
  op.exactly("d_o", c.d_o, c.q.dtype, c.o.shape);
  op.exactly("dq", c.dq, c.q.dtype, c.q.shape);
  op.exactly("dk", c.dk, c.q.dtype, c.k.shape);
  op.exactly("dv", c.dv, c.q.dtype, c.v.shape);
}
OpWork cost(const AttentionBackward& c) {
  // Five products (recomputed scores, dv, dp, dq, dk), where the forward pass has two.
  return core_work(c, c.dq, 5,
                   bytes_written(c.dq, c.dq_write) + bytes_written(c.dk, c.dkv_write) +
                       bytes_written(c.dv, c.dkv_write) +
                       bytes_of(c.d_o, c.q, c.k, c.v, c.o, c.lse, c.doc_start, c.sample_ids));
}

}  // namespace fp::calls
