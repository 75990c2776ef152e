#include "optim/optimizer.h"

#include <algorithm>

namespace fp {

double clip_scale(double norm, double clip) { return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0; }

void adamw_step(Ops& ops, const FlatState& state, std::span<const ParamRange> ranges, const OptimizerSection& spec,
                double lr, int64_t step, double grad_scale, const AdamWSums& sums) {
  const auto part = [](const Tensor& t, const Segment& s) { return t ? t.slice(s.offset, s.count) : Tensor{}; };
  if (sums.gradient) ops.zero(sums.gradient);
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
    const AdamW update{lr, spec.beta1, spec.beta2, spec.eps, decay ? spec.weight_decay : 0.0, step, grad_scale};
    ops.adamw(part(state.param, s), part(state.m, s), part(state.v, s), part(state.grad, s), part(state.weights, s),
              update, of_call);
  }
}

}  // namespace fp
