#include "optim/optimizer.h"

#include <algorithm>

#include "optim/elementwise.h"

namespace fp {

double clip_scale(double norm, double clip) { return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0; }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSection& spec) { return make_elementwise_optimizer(spec); }

std::vector<StateSlot> state_slots(OptimizerKind kind) {
  std::vector<StateSlot> slots = {{kParamState}};
  for (const std::string& state : elementwise_states(kind)) slots.push_back({state});
  return slots;
}

void offload(std::vector<StateSlot>& slots, DType compute) {
  for (size_t s = compute == DType::f32 ? kParamSlot + 1 : kParamSlot; s < slots.size(); ++s)
    slots[s].residence = Residence::host;
}

double saved_bytes(const OptimizerSection& spec) {
  double bytes = 0;
  for (const StateSlot& s : state_slots(spec.kind)) bytes += static_cast<double>(size_of(s.dtype));
  return bytes;
}

double offloaded_bytes(const OptimizerSection& spec, DType compute) {
  std::vector<StateSlot> slots = state_slots(spec.kind);
  offload(slots, compute);
  double bytes = 0;
  for (const StateSlot& s : slots)
    if (s.residence == Residence::host) bytes += static_cast<double>(size_of(s.dtype));
  return bytes;
}

}  // namespace fp
