// Compares two model sections: do they compute the same function from the same weights?
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Returns the differing settings that change what a model computes from the same weights, each as text:
// "model.rope.theta: 10000 here, 500000 there". Ignores labels, initialisation, padding and dropout. Both sections must
// be resolved.
std::vector<std::string> model_differences(const ModelSection& here, const ModelSection& there);

}  // namespace fp
