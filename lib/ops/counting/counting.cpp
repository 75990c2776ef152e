#include "ops/counting.h"

#include <algorithm>
#include <tuple>

namespace fp {
namespace {

// Adds up the work of every call.
class Counter final : public OpObserver {
 public:
  const Counts& counts() const { return counts_; }
  void reset() {
    counts_ = {};
    by_op_.clear();
    by_shape_.clear();
  }
  void ended(std::string_view, std::span<const OpWork> works) override {
    for (const OpWork& work : works) count(work);
  }

 private:
  static void add_to(OpCount& total, const OpWork& work) {
    ++total.calls;
    total.flops += work.flops;
    total.bytes += work.bytes;
  }
  void count(const OpWork& work) {
    const auto [known, added] = by_op_.try_emplace(work.op);
    if (added) known->second = &counts_.by_op[std::string(work.op)];
    add_to(*known->second, work);
    if (work.m == 0 && work.n == 0 && work.k == 0) return;
    const auto [shape, is_new] = by_shape_.try_emplace({work.op, work.m, work.n, work.k, work.dtype});
    if (is_new)
      shape->second =
          &counts_.gemm_shapes[fmt::format("{} {}x{}x{} {}", work.op, work.m, work.n, work.k, name_of(work.dtype))];
    add_to(*shape->second, work);
  }

  Counts counts_;
  // Pointers into counts_, so that names are not built for every call.
  std::map<std::string_view, OpCount*> by_op_;
  std::map<std::tuple<std::string_view, int64_t, int64_t, int64_t, DType>, OpCount*> by_shape_;
};

class DryOps final : public CountingOps {
 public:
  DryOps(const Ops* device, std::optional<DeviceMemory> memory) : device_(device), memory_(memory) {
    observe(counter_);
  }
  std::optional<DeviceMemory> device_memory() const override {
    return memory_ || device_ == nullptr ? memory_ : device_->device_memory();
  }

  std::string_view name() const override { return "counting"; }
  bool dry() const override { return true; }
  const Counts& counts() const override { return counter_.counts(); }
  void reset() override { counter_.reset(); }
  size_t scratch_bytes() const override { return scratch_; }
  void forget_scratch() override { scratch_ = 0; }
  const std::set<std::string>& attention_choices() const override { return attention_; }
  size_t device_own_bytes() const override {
    return device_ == nullptr ? 0 : device_->own_bytes(scratch_) - device_->own_bytes(0);
  }

 private:
#define FP_OP(Call, name) \
  void run(const calls::Call& call) override { need(call); }
  FP_UNFUSED_OPS(FP_OP)
#undef FP_OP

  class CountedCopies final : public Copies {
    void begin(const Copy&) override {}
    void begin(HostOp) override {}
    void order_ops_after(const CopyTicket&) override {}
  };
  std::unique_ptr<Copies> make_copies() override { return std::make_unique<CountedCopies>(); }

  template <class Call>
  void need(const Call& call) {
    if (device_ != nullptr) scratch_ = std::max(scratch_, device_->scratch_of(call));
  }
  void need(const calls::Attention& call) { need_for_attention(call); }
  void need(const calls::AttentionBackward& call) {
    need_for_attention(call);
    // Of both passes; without a backward pass, as in inference, cuDNN need not plan one.
    if (device_ != nullptr) attention_.insert(device_->explain_attention(call.q, call.k, call.doc_start, call.spec));
  }
  template <class Call>
  void need_for_attention(const Call& call) {
    need<Call>(call);
    // A batch of single documents has no doc_start, and another implementation may run it.
    Call single = call;
    single.doc_start = {};
    if (call.doc_start) need<Call>(single);
  }

  const Ops* device_;
  std::optional<DeviceMemory> memory_;
  Counter counter_;
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
  return std::make_unique<DryOps>(device, memory);
}

}  // namespace fp
