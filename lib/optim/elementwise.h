// The optimizers of base/optimizer_list.h, which update each element by itself.
#pragma once

#include "optim/optimizer.h"

namespace fp {

std::unique_ptr<Optimizer> make_elementwise_optimizer(const OptimizerSection&);

// Returns the names of the states of their rule.
std::vector<std::string> elementwise_states(OptimizerKind);

}  // namespace fp
