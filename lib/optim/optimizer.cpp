#include "optim/optimizer.h"

#include <algorithm>

#include "optim/elementwise.h"
#include "optim/muon.h"

namespace fp {

double clip_scale(double norm, double clip) { return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0; }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSection& spec) {
  if (spec.kind == OptimizerKind::muon) return std::make_unique<MuonOptimizer>(spec);
  return make_elementwise_optimizer(spec);
}

std::vector<StateSlot> state_slots(OptimizerKind kind) {
  std::vector<StateSlot> slots = {{kParamState}};
  if (kind == OptimizerKind::muon) {
    slots.push_back({.name = "momentum", .scope = StateSlot::Scope::matrices});
    for (const std::string& state : elementwise_states(OptimizerKind::adamw))
      slots.push_back({.name = state, .scope = StateSlot::Scope::others});
    return slots;
  }
  for (const std::string& state : elementwise_states(kind)) slots.push_back({state});
  return slots;
}

bool updates_on_host(OptimizerKind kind) { return kind != OptimizerKind::muon; }

void offload(std::vector<StateSlot>& slots, DType compute, bool weights) {
  for (size_t s = compute == DType::f32 && !weights ? kParamSlot + 1 : kParamSlot; s < slots.size(); ++s)
    slots[s].residence = Residence::host;
}

namespace {

// Bytes of a slot for an element, on average over parameters of which the fraction `matrices` are matrices.
double mean_bytes(const StateSlot& s, double matrices) {
  const double part = s.scope == StateSlot::Scope::all        ? 1
                      : s.scope == StateSlot::Scope::matrices ? matrices
                                                              : 1 - matrices;
  return part * static_cast<double>(size_of(s.dtype));
}

}  // namespace

double saved_bytes(OptimizerKind kind, double matrices) {
  double bytes = 0;
  for (const StateSlot& s : state_slots(kind)) bytes += mean_bytes(s, matrices);
  return bytes;
}

double offloaded_bytes(OptimizerKind kind, double matrices, DType compute, bool weights) {
  std::vector<StateSlot> slots = state_slots(kind);
  offload(slots, compute, weights);
  double bytes = 0;
  for (const StateSlot& s : slots)
    if (s.residence == Residence::host) bytes += mean_bytes(s, matrices);
  return bytes;
}

}  // namespace fp
