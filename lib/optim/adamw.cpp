#include "optim/adamw.h"

namespace fp {

void AdamWOptimizer::update(Ops& ops, const UpdateTensors& t, std::span<const ParamRange> ranges,
                            const UpdateStep& step, const UpdateChecksums& sums) const {
  const auto part = [](const Tensor& whole, const Segment& s) {
    return whole ? whole.slice(s.offset, s.count) : Tensor{};
  };
  if (sums.gradient) ops.zero({sums.gradient});
  for (size_t i = 0; i < ranges.size();) {
    const Segment row{static_cast<int64_t>(i), 1};
    const AdamWSums of_call{part(sums.gradient, row), sums.bits ? part(sums.bits, row).reshaped({4, 2}) : Tensor{}};
    // Adjacent ranges of the same kind share a call, unless each needs its own bit sums.
    Segment s = ranges[i].segment;
    const bool decay = ranges[i].decay;
    for (++i;
         !sums.bits && i < ranges.size() && ranges[i].decay == decay && ranges[i].segment.offset == s.offset + s.count;
         ++i)
      s.count += ranges[i].segment.count;
    const AdamW update{step.lr,   spec_.beta1,    spec_.beta2, spec_.eps, decay ? spec_.weight_decay : 0.0,
                       step.step, step.grad_scale};
    ops.adamw({part(t.param, s), part(t.states[0], s), part(t.states[1], s), part(t.gradient, s), part(t.weights, s),
               update, of_call});
  }
}

}  // namespace fp
