#include "optim/elementwise.h"

#include "base/error.h"

namespace fp {
namespace {

#define FP_UPDATE(Rule, name) \
  void issue(Ops& ops, const calls::Rule& call) { ops.name(call); }
FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE
void issue(Ops& ops, const calls::Zero& call) { ops.zero(call); }

template <class Call>
class ElementwiseOptimizer final : public Optimizer {
 public:
  explicit ElementwiseOptimizer(const OptimizerSection& spec) : spec_(spec) {}

  void update(Ops& ops, const UpdateTensors& t, std::span<const ParamRange> ranges, const UpdateStep& step,
              const UpdateChecksums& sums) const override {
    for_each_call(t, ranges, step, sums, [&](const auto& call) { issue(ops, call); });
  }
  CopyTicket update_on_host(Ops& ops, const UpdateTensors& t, std::span<const ParamRange> ranges,
                            const UpdateStep& step, const CopyTicket& after,
                            const UpdateChecksums& sums) const override {
    CopyTicket last = after;
    for_each_call(t, ranges, step, sums, [&](const auto& call) { last = ops.start_on_host(call, after); });
    return last;
  }

 private:
  template <class Issue>
  void for_each_call(const UpdateTensors& t, std::span<const ParamRange> ranges, const UpdateStep& step,
                     const UpdateChecksums& sums, const Issue& use) const {
    constexpr int64_t kSums = std::tuple_size_v<decltype(Call::states)> + 2;
    const auto part = [](const Tensor& whole, const IndexRange& s) {
      return whole ? whole.slice(s.first, s.count) : Tensor{};
    };
    if (sums.gradient) use(calls::Zero{sums.gradient});
    for (size_t i = 0; i < ranges.size();) {
      const IndexRange row{static_cast<int64_t>(i), 1};
      const RuleSums of_call{part(sums.gradient, row),
                             sums.bits ? part(sums.bits, row).reshaped({kSums, 2}) : Tensor{}};
      // Adjacent ranges of the same kind share a call, unless each needs its own bit sums.
      IndexRange s = ranges[i].segment;
      const bool decay = ranges[i].decay;
      const int64_t state = ranges[i].state_offset;
      for (++i; !sums.bits && i < ranges.size() && ranges[i].decay == decay &&
                ranges[i].segment.first == s.first + s.count && ranges[i].state_offset == state + s.count;
           ++i)
        s.count += ranges[i].segment.count;
      Call call{.param = part(t.param, s),
                .states = {},
                .grad = part(t.gradient, s),
                .weights = part(t.weights, s),
                .options = {step.lr, spec_.beta1, spec_.beta2, spec_.eps, decay ? spec_.weight_decay : 0.0, step.step,
                            step.grad_scale},
                .sums = of_call};
      for (size_t k = 0; k < call.states.size(); ++k) call.states[k] = part(t.states[k], {state, s.count});
      use(call);
    }
  }

  OptimizerSection spec_;
};

}  // namespace

std::unique_ptr<Optimizer> make_elementwise_optimizer(const OptimizerSection& spec) {
  switch (spec.kind) {
#define FP_UPDATE(Rule, name) \
  case OptimizerKind::name:   \
    return std::make_unique<ElementwiseOptimizer<calls::Rule>>(spec);
    FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE
    case OptimizerKind::muon:
      break;
  }
  throw InternalError("unknown optimizer");
}

std::vector<std::string> elementwise_states(OptimizerKind kind) {
  switch (kind) {
#define FP_UPDATE(Rule, name) \
  case OptimizerKind::name:   \
    return {std::begin(rules::Rule::kStateNames), std::end(rules::Rule::kStateNames)};
    FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE
    case OptimizerKind::muon:
      break;
  }
  throw InternalError("unknown optimizer");
}

}  // namespace fp
