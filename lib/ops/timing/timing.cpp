#include "ops/timing/timing.h"

#include <chrono>

#include "base/stopwatch.h"

namespace fp {
namespace {

class Timing final : public TimingOps {
 public:
  explicit Timing(Ops& inner) : inner_(&inner) {}
  std::string_view name() const override { return inner_->name(); }
  const Timings& timings() const override { return timings_; }
  void reset() override { timings_ = {}; }
  void log_to(std::vector<TimedCall>* log) override { log_ = log; }

  std::shared_ptr<std::byte> allocate(size_t bytes, bool huge_pages) override {
    return inner_->allocate(bytes, huge_pages);
  }
  std::optional<DeviceMemory> device_memory() const override { return inner_->device_memory(); }
  std::string device_id() const override { return inner_->device_id(); }
  size_t attention_scratch(const Tensor& q, const Tensor& k, const Tensor& doc_start, const AttentionSpec& spec,
                           bool backward) const override {
    return inner_->attention_scratch(q, k, doc_start, spec, backward);
  }
  void reserve_scratch(size_t bytes) override { inner_->reserve_scratch(bytes); }
  size_t own_bytes(size_t scratch) const override { return inner_->own_bytes(scratch); }
  std::string explain_attention(const Tensor& q, const Tensor& k, const Tensor& doc_start,
                                const AttentionSpec& spec) const override {
    return inner_->explain_attention(q, k, doc_start, spec);
  }
  double peak_flops(DType compute) const override { return inner_->peak_flops(compute); }

  void copy_in(const Tensor& dst, const void* host) override {
    timed("copy_in", [&] { inner_->copy_in(dst, host); });
  }
  void copy_out(void* host, const Tensor& src) override {
    timed("copy_out", [&] { inner_->copy_out(host, src); });
  }
  void copy(const Tensor& dst, const Tensor& src) override {
    timed("copy", [&] { inner_->copy(dst, src); });
  }
  void zero(const Tensor& x) override {
    timed("zero", [&] { inner_->zero(x); });
  }
  void cast(const Tensor& dst, const Tensor& src) override {
    timed("cast", [&] { inner_->cast(dst, src); });
  }
  void permute(const Tensor& y, const Tensor& x, std::span<const int> order) override {
    timed("permute", [&] { inner_->permute(y, x, order); });
  }
  void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t columns,
                    Write write) override {
    timed("copy_columns", [&] { inner_->copy_columns(y, y_first, x, x_first, columns, write); });
  }
  void round_stochastically(const Tensor& dst, const Tensor& src, const StochasticRounding& r) override {
    timed("round_stochastically", [&] { inner_->round_stochastically(dst, src, r); });
  }
  void find_nonfinite(const Tensor& first, const Tensor& x) override {
    timed("find_nonfinite", [&] { inner_->find_nonfinite(first, x); });
  }
  void bit_sums(const Tensor& sums, const Tensor& x) override {
    timed("bit_sums", [&] { inner_->bit_sums(sums, x); });
  }
  void piece_sums(const Tensor& sums, const Tensor& x) override {
    timed("piece_sums", [&] { inner_->piece_sums(sums, x); });
  }
  void synchronize() override { inner_->synchronize(); }
  void weights_changed() override {
    timed("weights_changed", [&] { inner_->weights_changed(); });
  }
  void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) override {
    count(GemmKind::forward, y.rows(), w);
    timed("linear", [&] { inner_->linear(y, x, w, bias); });
  }
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) override {
    count(GemmKind::backward_input, dy.rows(), w);
    timed("linear_backward_input", [&] { inner_->linear_backward_input(dx, dy, w); });
  }
  void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) override {
    count(GemmKind::backward_weight, dy.rows(), dw);
    timed("linear_backward_weight", [&] { inner_->linear_backward_weight(dw, dy, x, write); });
  }
  void linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const Tensor& w, const Tensor& bias) override {
    count(GemmKind::forward, y.rows(), w);
    timed("linear_gelu", [&] { inner_->linear_gelu(y, u, x, w, bias); });
  }
  void linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& w, const Tensor& u) override {
    count(GemmKind::backward_input, dy.rows(), w);
    timed("linear_backward_input_gelu", [&] { inner_->linear_backward_input_gelu(du, dy, w, u); });
  }
  void linear_backward_weight_bias(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x,
                                   Write dw_write, Write db_write) override {
    count(GemmKind::backward_weight, dy.rows(), dw);
    timed("linear_backward_weight_bias",
          [&] { inner_->linear_backward_weight_bias(dw, db, dy, x, dw_write, db_write); });
  }
  void bias_backward(const Tensor& db, const Tensor& dy, Write write) override {
    timed("bias_backward", [&] { inner_->bias_backward(db, dy, write); });
  }
  void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                 const Tensor& positions_table, double scale) override {
    timed("embedding", [&] { inner_->embedding(y, ids, table, positions, positions_table, scale); });
  }
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double scale) override {
    timed("embedding_backward", [&] { inner_->embedding_backward(dtable, dy, ids, scale); });
  }
  void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
            const Tensor& gain, const Tensor& bias, const NormSpec& spec) override {
    timed("norm", [&] { inner_->norm(y, sum, stats, x, residual, gain, bias, spec); });
  }
  void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& gain,
                           const NormSpec& spec5, Write write) override {
    timed("norm_backward_input", [&] { inner_->norm_backward_input(dx, dy, x, stats, gain, spec5, write); });
  }
  void norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                            const Tensor& stats, const NormSpec& spec5, Write write) override {
    timed("norm_backward_weight", [&] { inner_->norm_backward_weight(dgain, dbias, dy, x, stats, spec5, write); });
  }
  void activation(const Tensor& y, const Tensor& x, const ActivationSpec& spec) override {
    timed("activation", [&] { inner_->activation(y, x, spec); });
  }
  void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec& spec) override {
    timed("activation_backward", [&] { inner_->activation_backward(dx, dy, x, spec); });
  }
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override {
    timed("add", [&] { inner_->add(y, a, b); });
  }
  void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t first_token,
               const Dropout& spec) override {
    timed("dropout", [&] { inner_->dropout(y, x, sample_ids, first_token, spec); });
  }
  void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout& spec4,
                 const Rope& spec5, const Tensor& positions) override {
    timed("split_qkv", [&] { inner_->split_qkv(q, k, v, qkv, spec4, spec5, positions); });
  }
  void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                          const HeadLayout& spec4, const Rope& spec5, const Tensor& positions) override {
    timed("split_qkv_backward", [&] { inner_->split_qkv_backward(dqkv, dq, dk, dv, spec4, spec5, positions); });
  }
  void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) override {
    timed("attention", [&] { inner_->attention(o, lse, q, k, v, doc_start, sample_ids, spec); });
  }
  void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) override {
    timed("attention_merge", [&] { inner_->attention_merge(o, lse, o_part, lse_part); });
  }
  void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                          const Tensor& sample_ids, const AttentionSpec& spec) override {
    timed("attention_backward",
          [&] { inner_->attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, doc_start, sample_ids, spec); });
  }
  void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets,
                     const Vocabulary& spec) override {
    timed("softmax_stats", [&] { inner_->softmax_stats(stats, logits, targets, spec); });
  }
  void softmax_stats_merge(const Tensor& stats, const Tensor& parts) override {
    timed("softmax_stats_merge", [&] { inner_->softmax_stats_merge(stats, parts); });
  }
  void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) override {
    timed("cross_entropy", [&] { inner_->cross_entropy(loss, stats, targets); });
  }
  void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets, const Vocabulary& spec3,
                              double scale, double z_loss) override {
    timed("cross_entropy_backward",
          [&] { inner_->cross_entropy_backward(logits, loss, targets, spec3, scale, z_loss); });
  }
  void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) override {
    timed("sum_squares", [&] { inner_->sum_squares(sums, x, segments); });
  }
  void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
             const AdamW& spec, const AdamWSums& sums) override {
    timed("adamw", [&] { inner_->adamw(param, m, v, grad, weights, spec, sums); });
  }

 private:
  template <class Call>
  void timed(const char* op, Call&& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    inner_->synchronize();
    const double seconds = seconds_since(start);
    OpTime& t = timings_.by_op[op];
    ++t.calls;
    t.seconds += seconds;
    if (log_ != nullptr) log_->push_back({op, seconds});
  }
  void count(GemmKind kind, int64_t m, const Tensor& w) { ++timings_.gemms[{kind, m, w.rows(), w.cols()}]; }

  Ops* inner_;
  Timings timings_;
  std::vector<TimedCall>* log_ = nullptr;
};

}  // namespace

std::unique_ptr<TimingOps> make_timing_ops(Ops& inner) { return std::make_unique<Timing>(inner); }

}  // namespace fp
