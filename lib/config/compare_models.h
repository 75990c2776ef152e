// Compares two model sections: do they hold the same weights, and compute the same function from them?
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Both return differing settings, each as text: "model.rope.theta: 10000 here, 500000 there". Both sections must be
// resolved, with their vocabulary.

// Returns those that give the parameters other names or shapes. Here the vocabulary, and the maximum position where
// positions are learned, may be larger.
std::vector<std::string> size_differences(const ModelSection& here, const ModelSection& there);
// Returns those that change what a model computes from the same weights. Ignores labels, initialisation, padding,
// dropout, and a maximum position that only limits the length of a text.
std::vector<std::string> model_differences(const ModelSection& here, const ModelSection& there);

}  // namespace fp
