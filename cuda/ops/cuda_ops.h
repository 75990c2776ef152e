// The CUDA backend. An op checks its call and launches its kernels on the compute stream. One file per family of ops,
// with a file comment on what its kernels compute, what a block does and which bytes it moves.
//
// Kernels accept any shape and any alignment of whole elements; aligned rows are moved 16 bytes at a time. No result
// depends on the order in which threads or blocks run.
#pragma once

#include <map>
#include <vector>

#include "cuda/ops/attention/attention.h"
#include "cuda/ops/piece_table.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/gemm.h"
#include "ops/ops.h"

namespace fp {

class CudaOps final : public Ops {
 public:
  explicit CudaOps(int device_index);

  std::string_view name() const override { return "cuda"; }

  std::shared_ptr<std::byte> allocate(size_t bytes, bool huge_pages) override;
  std::optional<DeviceMemory> device_memory() const override;
  std::string device_id() const override;
  size_t attention_scratch(const Tensor& q, const Tensor& k, const Tensor& doc_start, const AttentionSpec&,
                           bool backward) const override;
  void reserve_scratch(size_t bytes) override;
  size_t own_bytes(size_t scratch) const override;
  std::string explain_attention(const Tensor& q, const Tensor& k, const Tensor& doc_start,
                                const AttentionSpec&) const override;
  double peak_flops(DType) const override;

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
  void synchronize() override { device_.synchronize(); }
  void weights_changed() override {}  // nothing is cached

  void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) override;
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) override;
  void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write) override;
  void linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const Tensor& w, const Tensor& bias) override;
  void linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& w, const Tensor& u) override;
  void linear_backward_weight_bias(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x,
                                   Write dw_write, Write db_write) override;
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

  cuda::Device& device() { return device_; }

 private:
  cuda::Stream stream() const { return device_.compute(); }

  cuda::Device device_;
  cuda::Gemm gemm_;
  cuda::Attention attention_;
  cuda::PieceTable pieces_;
};

}  // namespace fp
