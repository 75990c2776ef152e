// Fills a parameter store with tensors from any TensorReader.
#pragma once

#include <span>

#include "checkpoint/tensor_reader.h"

namespace fp {

// Reads this rank's part of the given slots into the store, in the order of rank files. Padding and the gaps
// between parameters become 0. The compute weights are not refreshed. Returns the fingerprints of what this rank owns:
// computed from the store's values where they are f32 in host memory, else from the values that were read.
Fingerprints fill_store(ParamStore&, Ops&, std::span<const int> slots, TensorReader&);

}  // namespace fp
