// The CPU backend. An op checks its call, translates it to the arguments of the kernels for this CPU's instruction set
// (kernels.h) and provides their scratch memory. One file per family of ops.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/scratch.h"
#include "ops/ops.h"

namespace fp {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(Isa isa) : k_(cpu::kernels(isa)), onednn_(isa) {}

  std::string_view name() const override { return "cpu"; }

  void copy_in(const Tensor& dst, const void* host) override;
  void copy_out(void* host, const Tensor& src) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void zero(const Tensor& x) override;
  void cast(const Tensor& dst, const Tensor& src) override;
  void permute(const Tensor& y, const Tensor& x, std::span<const int> order) override;
  void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count, Write) override;
  void round_stochastically(const Tensor& dst, const Tensor& src, const StochasticRounding&) override;
  void find_nonfinite(const Tensor& first, const Tensor& x) override;
  void bit_sums(const Tensor& sums, const Tensor& x) override;
  void piece_sums(const Tensor& sums, const Tensor& x) override;
  void synchronize() override {}
  void weights_changed() override {}  // weights are packed when they are used; nothing is cached

  void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) override;
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) override;
  void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write) override;
  void bias_backward(const Tensor& db, const Tensor& dy, Write) override;

  void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                 const Tensor& positions_table, double scale) override;
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double scale) override;

  void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
            const Tensor& gain, const Tensor& bias, const NormSpec&) override;
  void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& gain,
                           const NormSpec&, Write) override;
  void norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                            const Tensor& stats, const NormSpec&, Write) override;

  void activation(const Tensor& y, const Tensor& x, const ActivationSpec&) override;
  void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec&) override;
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t first_token,
               const Dropout&) override;

  void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout&, const Rope&,
                 const Tensor& positions) override;
  void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv, const HeadLayout&,
                          const Rope&, const Tensor& positions) override;

  void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec&) override;
  void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) override;
  void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                          const Tensor& sample_ids, const AttentionSpec&) override;

  void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets, const Vocabulary&) override;
  void softmax_stats_merge(const Tensor& stats, const Tensor& parts) override;
  void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) override;
  void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets, const Vocabulary&,
                              double scale, double z_loss) override;

  void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) override;
  void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
             const AdamW&, const AdamWSums&) override;

 private:
  void gemm(cpu::GemmArgs);

  const cpu::Kernels& k_;
  cpu::ScratchPool scratch_;
  cpu::OneDnn onednn_;
};

}  // namespace fp
