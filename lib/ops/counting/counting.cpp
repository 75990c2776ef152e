#include "ops/counting.h"

#include <algorithm>
#include <tuple>

#include "ops/checks.h"
#include "ops/counting/pairs.h"

namespace fp {
namespace {

// FLOPs per element of the element-wise ops, counted from their definitions (exp, tanh, sqrt, a division: 1 each).
constexpr double kNormFlops = 8, kNormBackwardInputFlops = 11, kNormBackwardWeightFlops = 5;
constexpr double kRotationFlops = 3, kDropoutFlops = 1, kSoftmaxFlops = 4, kLossBackwardFlops = 4, kAdamwFlops = 15;

double activation_flops(Activation kind) { return kind == Activation::gelu ? 9 : kind == Activation::swiglu ? 5 : 8; }
double activation_backward_flops(Activation kind) {
  return kind == Activation::gelu ? 18 : kind == Activation::swiglu ? 11 : 15;
}

template <class... Tensors>
double bytes_of(const Tensors&... tensors) {
  return (0.0 + ... + static_cast<double>(tensors.bytes()));
}

// A destination that is added to is also read.
double bytes_written(const Tensor& t, Write write) { return bytes_of(t) * (write == Write::add ? 2 : 1); }

double count_of(const Tensor& t) { return static_cast<double>(t.elements()); }

class Counter final : public CountingOps {
 public:
  Counter(const Ops* device, std::optional<DeviceMemory> memory) : device_(device), memory_(memory) {}
  std::optional<DeviceMemory> device_memory() const override {
    return memory_ || device_ == nullptr ? memory_ : device_->device_memory();
  }

  std::string_view name() const override { return "counting"; }
  const Counts& counts() const override { return counts_; }
  void reset() override {
    counts_ = {};
    by_op_.clear();
    by_shape_.clear();
  }
  void observe(OpObserver* observer) override { observer_ = observer; }
  size_t scratch_bytes() const override { return scratch_; }
  const std::set<std::string>& attention_choices() const override { return attention_; }
  size_t own_bytes() const override {
    return device_ == nullptr ? 0 : device_->own_bytes(scratch_) - device_->own_bytes(0);
  }

  void copy_in(const Tensor& dst, const void*) override { count("copy_in", dst.dtype, 0, bytes_of(dst)); }
  void copy_out(void*, const Tensor& src) override { count("copy_out", src.dtype, 0, bytes_of(src)); }
  void copy(const Tensor& dst, const Tensor& src) override {
    checks::copy(dst, src);
    count("copy", dst.dtype, 0, bytes_of(dst, src));
  }
  void zero(const Tensor& x) override { count("zero", x.dtype, 0, bytes_of(x)); }
  void cast(const Tensor& dst, const Tensor& src) override {
    checks::cast(dst, src);
    count("cast", dst.dtype, 0, bytes_of(dst, src));
  }
  void permute(const Tensor& y, const Tensor& x, std::span<const int> order) override {
    checks::permute(y, x, order);
    count("permute", y.dtype, 0, bytes_of(y, x));
  }
  void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t columns,
                    Write write) override {
    checks::copy_columns(y, y_first, x, x_first, columns);
    const double elements = static_cast<double>(y.rows()) * static_cast<double>(columns);
    const bool add = write == Write::add;
    count("copy_columns", y.dtype, add ? elements : 0.0,
          elements * static_cast<double>(size_of(y.dtype)) * (add ? 3 : 2));
  }
  void round_stochastically(const Tensor& dst, const Tensor& src, const StochasticRounding&) override {
    checks::round_stochastically(dst, src);
    count("round_stochastically", dst.dtype, 0, bytes_of(dst, src));
  }
  void find_nonfinite(const Tensor& first, const Tensor& x) override {
    checks::find_nonfinite(first, x);
    count("find_nonfinite", x.dtype, count_of(x), bytes_of(first, x));
  }
  void bit_sums(const Tensor& sums, const Tensor& x) override {
    checks::bit_sums(sums, x);
    count("bit_sums", x.dtype, 2 * count_of(x), bytes_of(sums, x));
  }
  void piece_sums(const Tensor& sums, const Tensor& x) override {
    checks::piece_sums(sums, x);
    count("piece_sums", x.dtype, 2 * count_of(x), bytes_of(sums, x));
  }
  void synchronize() override {}
  void weights_changed() override {}

  void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) override {
    checks::linear(y, x, w, bias);
    gemm("linear", x, y.cols(), x.cols(), bytes_of(y, x, w, bias));
  }
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) override {
    checks::linear_backward_input(dx, dy, w);
    gemm("linear_backward_input", dy, dy.cols(), dx.cols(), bytes_of(dx, dy, w));
  }
  void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) override {
    checks::linear_backward_weight(dw, dy, x);
    gemm("linear_backward_weight", dy, dy.cols(), x.cols(), bytes_of(dy, x) + bytes_written(dw, write));
  }
  void bias_backward(const Tensor& db, const Tensor& dy, Write write) override {
    checks::bias_backward(db, dy);
    count("bias_backward", dy.dtype, count_of(dy), bytes_of(dy) + bytes_written(db, write));
  }

  void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                 const Tensor& positions_table, double) override {
    checks::embedding(y, ids, table, positions, positions_table);
    const double tables = positions_table ? 2 : 1;  // only the rows of the tokens are read
    count("embedding", y.dtype, count_of(y) * tables, bytes_of(ids, positions) + bytes_of(y) * (1 + tables));
  }
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double) override {
    checks::embedding_backward(dtable, dy, ids);
    const double rows = count_of(dy) * static_cast<double>(size_of(dtable.dtype));
    count("embedding_backward", dy.dtype, 2 * count_of(dy), bytes_of(dy, ids) + 2 * rows);
  }

  void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
            const Tensor& gain, const Tensor& bias, const NormSpec& spec) override {
    checks::norm(y, sum, stats, x, residual, gain, bias, spec);
    count("norm", y.dtype, (kNormFlops + (residual ? 1 : 0)) * count_of(x),
          bytes_of(y, sum, stats, x, residual, gain, bias));
  }
  void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& gain,
                           const NormSpec&, Write write) override {
    checks::norm_backward_input(dx, dy, x, stats, gain);
    count("norm_backward_input", dx.dtype, kNormBackwardInputFlops * count_of(x),
          bytes_of(dy, x, stats, gain) + bytes_written(dx, write));
  }
  void norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                            const Tensor& stats, const NormSpec&, Write write) override {
    checks::norm_backward_weight(dgain, dbias, dy, x, stats);
    count("norm_backward_weight", dy.dtype, kNormBackwardWeightFlops * count_of(x),
          bytes_of(dy, x, stats) + bytes_written(dgain, write) + bytes_written(dbias, write));
  }

  void activation(const Tensor& y, const Tensor& x, const ActivationSpec& spec) override {
    checks::activation(y, x, spec);
    count("activation", y.dtype, activation_flops(spec.kind) * count_of(y), bytes_of(y, x));
  }
  void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec& spec) override {
    checks::activation_backward(dx, dy, x, spec);
    count("activation_backward", dx.dtype, activation_backward_flops(spec.kind) * count_of(dy), bytes_of(dx, dy, x));
  }
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override {
    checks::add(y, a, b);
    count("add", y.dtype, count_of(y), bytes_of(y, a, b));
  }
  void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t, const Dropout& spec) override {
    checks::dropout(y, x, sample_ids, spec);
    count("dropout", y.dtype, kDropoutFlops * count_of(y), bytes_of(y, x, sample_ids));
  }

  void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout& layout,
                 const Rope& rope, const Tensor& positions) override {
    checks::split_qkv(q, k, v, qkv, layout, rope, positions);
    split("split_qkv", q, k, v, qkv, rope, positions);
  }
  void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                          const HeadLayout& layout, const Rope& rope, const Tensor& positions) override {
    checks::split_qkv_backward(dqkv, dq, dk, dv, layout, rope, positions);
    split("split_qkv_backward", dq, dk, dv, dqkv, rope, positions);
  }

  void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) override {
    checks::attention(o, lse, q, k, v, doc_start, sample_ids, spec);
    need_scratch(q, k, doc_start, spec, false);
    count("attention", o.dtype, core_flops(q, k, spec), bytes_of(o, lse, q, k, v, doc_start, sample_ids));
  }
  void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) override {
    checks::attention_merge(o, lse, o_part, lse_part);
    count("attention_merge", o.dtype, 3 * count_of(o), 2 * bytes_of(o, lse) + bytes_of(o_part, lse_part));
  }
  void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                          const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                          const Tensor& sample_ids, const AttentionSpec& spec) override {
    checks::attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, doc_start, sample_ids, spec);
    need_scratch(q, k, doc_start, spec, true);
    // Five GEMMs (recomputed scores, dv, dp, dq, dk), where the forward pass has two.
    count("attention_backward", dq.dtype, 2.5 * core_flops(q, k, spec),
          bytes_of(dq, dk, dv, d_o, q, k, v, o, lse, doc_start, sample_ids));
  }

  void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets,
                     const Vocabulary& vocabulary) override {
    checks::softmax_stats(stats, logits, targets, vocabulary);
    count("softmax_stats", logits.dtype, kSoftmaxFlops * count_of(logits),
          bytes_of(stats, logits, targets, vocabulary.masked_ids));
  }
  void softmax_stats_merge(const Tensor& stats, const Tensor& parts) override {
    checks::softmax_stats_merge(stats, parts);
    count("softmax_stats_merge", stats.dtype, kSoftmaxFlops * count_of(parts) / 3, bytes_of(stats, parts));
  }
  void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) override {
    checks::cross_entropy(loss, stats, targets);
    count("cross_entropy", loss.dtype, 3 * count_of(targets), bytes_of(loss, stats, targets));
  }
  void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets,
                              const Vocabulary& vocabulary, double, double) override {
    checks::cross_entropy_backward(logits, loss, targets, vocabulary);
    count("cross_entropy_backward", logits.dtype, kLossBackwardFlops * count_of(logits),
          2 * bytes_of(logits) + bytes_of(loss, targets, vocabulary.masked_ids));
  }

  void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) override {
    checks::sum_squares(sums, x, segments);
    double elements = 0;
    for (const Segment& s : segments) elements += static_cast<double>(s.count);
    count("sum_squares", x.dtype, 2 * elements, elements * static_cast<double>(size_of(x.dtype)) + bytes_of(sums));
  }
  void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
             const AdamW& spec, const AdamWSums& sums) override {
    checks::adamw(param, m, v, grad, weights, spec, sums);
    count("adamw", param.dtype, kAdamwFlops * count_of(param),
          2 * bytes_of(param, m, v) + bytes_of(grad, weights, sums.gradient, sums.bits));
  }

 private:
  static void add_to(OpCount& total, double flops, double bytes) {
    ++total.calls;
    total.flops += flops;
    total.bytes += bytes;
  }
  void count(const char* op, DType dtype, double flops, double bytes) { count({op, flops, bytes, 0, 0, 0, dtype}); }
  void count(const OpWork& work) {
    const auto [known, added] = by_op_.try_emplace(work.op);
    if (added) known->second = &counts_.by_op[std::string(work.op)];
    add_to(*known->second, work.flops, work.bytes);
    if (observer_ != nullptr) observer_->called(work);
  }

  // Counts a product of M rows of `tokens` with a layer of N outputs and K inputs.
  void gemm(const char* op, const Tensor& tokens, int64_t N, int64_t K, double bytes) {
    const int64_t M = tokens.rows();
    const double flops = 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K);
    count({op, flops, bytes, M, N, K, tokens.dtype});
    const auto [known, added] = by_shape_.try_emplace({op, M, N, K, tokens.dtype});
    if (added) known->second = &counts_.gemm_shapes[fmt::format("{} {}x{}x{} {}", op, M, N, K, name_of(tokens.dtype))];
    add_to(*known->second, flops, bytes);
  }

  void split(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& fused, const Rope& rope,
             const Tensor& positions) {
    // Each token reads its row of the tables once; all heads use it.
    const double rows = rope.cos ? static_cast<double>(fused.rows()) : 0.0;
    const double tables = rows * 2 * static_cast<double>(rope.cos ? rope.cos.cols() : 0) * size_of(DType::f32);
    count(op, fused.dtype, rope.cos ? kRotationFlops * (count_of(q) + count_of(k)) : 0.0,
          bytes_of(q, k, v, fused) + (rope.cos ? bytes_of(positions) + tables : 0.0));
  }

  // Two GEMMs over the visible pairs; the softmax between them is left out, as is usual.
  static double core_flops(const Tensor& q, const Tensor& k, const AttentionSpec& spec) {
    const int64_t pairs = visible_pairs(spec, q.shape[2], q.shape[1], k.shape[1]);
    return 4.0 * static_cast<double>(q.shape[3]) * static_cast<double>(q.shape[0]) * static_cast<double>(pairs);
  }

  void need_scratch(const Tensor& q, const Tensor& k, const Tensor& doc_start, const AttentionSpec& spec,
                    bool backward) {
    if (device_ == nullptr) return;
    scratch_ = std::max(scratch_, device_->attention_scratch(q, k, doc_start, spec, backward));
    // A batch of single documents has no doc_start, and another implementation may run it.
    if (doc_start) scratch_ = std::max(scratch_, device_->attention_scratch(q, k, {}, spec, backward));
    attention_.insert(device_->explain_attention(q, k, doc_start, spec));
  }

  const Ops* device_;
  std::optional<DeviceMemory> memory_;
  OpObserver* observer_ = nullptr;
  Counts counts_;
  // Pointers into counts_, so that names are not built for every call.
  std::map<std::string_view, OpCount*> by_op_;
  std::map<std::tuple<std::string_view, int64_t, int64_t, int64_t, DType>, OpCount*> by_shape_;
  size_t scratch_ = 0;
  std::set<std::string> attention_;
};

double sum(const std::map<std::string, OpCount>& counts, double OpCount::*field) {
  double total = 0;
  for (const auto& [name, count] : counts) total += count.*field;
  return total;
}

}  // namespace

double Counts::flops() const { return sum(by_op, &OpCount::flops); }
double Counts::gemm_flops() const { return sum(gemm_shapes, &OpCount::flops); }
double Counts::bytes() const { return sum(by_op, &OpCount::bytes); }

std::unique_ptr<CountingOps> make_counting_ops(const Ops* device, std::optional<DeviceMemory> memory) {
  return std::make_unique<Counter>(device, memory);
}

}  // namespace fp
