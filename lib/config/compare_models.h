// Whether two model sections are the same function of the same weights.
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Settings that change what a model computes from weights of one shape, where the two sections differ:
// "model.rope.theta: 10000 here, 500000 there". Labels, initialisation, padding and dropout do not count. Both must be
// resolved.
std::vector<std::string> model_differences(const ModelSection& here, const ModelSection& there);

}  // namespace fp
