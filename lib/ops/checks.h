// Shape and dtype checks of every op. Each backend calls the op's function here first, so that a wrong call fails the
// same way on all of them: InternalError naming the op, the tensor, what it is and what is expected. Arguments are
// those of the op itself; flags that no check depends on are left out.
#pragma once

#include <span>

#include "ops/ops.h"

namespace fp::checks {

void copy(const Tensor& dst, const Tensor& src);
void cast(const Tensor& dst, const Tensor& src);

void permute(const Tensor& y, const Tensor& x, std::span<const int> order);
void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count);
void round_stochastically(const Tensor& dst, const Tensor& src);
void find_nonfinite(const Tensor& first, const Tensor& x);
void bit_sums(const Tensor& sums, const Tensor& x);
void piece_sums(const Tensor& sums, const Tensor& x);

void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias);
void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w);
void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x);
void bias_backward(const Tensor& db, const Tensor& dy);

void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
               const Tensor& positions_table);
void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids);

void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
          const Tensor& gain, const Tensor& bias, const NormSpec&);
void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& gain);
void norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                          const Tensor& stats);

void activation(const Tensor& y, const Tensor& x, const ActivationSpec&);
void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec&);
void add(const Tensor& y, const Tensor& a, const Tensor& b);
void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, const Dropout&);

void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout&, const Rope&,
               const Tensor& positions);
void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv, const HeadLayout&,
                        const Rope&, const Tensor& positions);

void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec&);
void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                        const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                        const Tensor& sample_ids, const AttentionSpec&);

void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part);

void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets, const Vocabulary&);
void softmax_stats_merge(const Tensor& stats, const Tensor& parts);
void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets);
void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets, const Vocabulary&);

void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments);
void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
           const AdamW&, const AdamWSums&);

}  // namespace fp::checks
