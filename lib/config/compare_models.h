// Compares two model sections: do they hold the same weights, and compute the same function from them?
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Both functions return the settings that differ, as text: "model.rope.theta: 10000 here, 500000 there". The sections
// must be resolved and have model.vocab set.

// Returns the settings that give the parameters other names or shapes. It is no difference if `here` has a larger
// vocabulary or, where positions are learned, a larger maximum position.
std::vector<std::string> size_differences(const ModelSection& here, const ModelSection& there);
// Returns the settings that change what a model computes from the same weights. Ignores labels, initialisation,
// padding, dropout, and a maximum position that only limits the length of a text.
std::vector<std::string> model_differences(const ModelSection& here, const ModelSection& there);

}  // namespace fp
