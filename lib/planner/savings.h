// Savings: the ways to need less memory for activations, in the order in which the planner tries them.
#pragma once

#include <vector>

#include "config/cluster/cluster.h"
#include "planner/plan.h"

namespace fp {

// Returns the savings of a plan with open keys, the cheapest first. Keys that are not open keep the values of `from`:
//   recompute none, selective, full; then, with full, tiles of the MLP, which cost nothing more; inputs of layers in
//   host memory (on GPUs); chunks of the sequence, large ones first.
// No chunk is so small that the copies of keys and values would take longer than attention: one of C tokens takes 4 C^2
// H d FLOPs for a visit of C keys in the forward pass, and 10 C^2 H d in the backward pass, for which 4 C K d bytes
// come in, or 12 C K d (with their gradients in fp32), where H heads share K kv heads; in fp32
// compute these are 8 and 16 C K d.
std::vector<Plan> savings(const RunSpec&, const Plan& from, const ClusterSpec&);

// Whether `b` is `a` with savings or a higher ZeRO stage (from 1 on), so that it needs less memory and is no faster.
bool uses_less_memory(const Plan& b, const Plan& a);

}  // namespace fp
