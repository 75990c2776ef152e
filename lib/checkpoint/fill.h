// Filling a store with tensors that are stored elsewhere.
#pragma once

#include <span>

#include "checkpoint/tensor_reader.h"

namespace fp {

// Puts what the store holds of these kinds into it, in the order of rank files; padding and the gaps between parameters
// become 0. The compute weights are not refreshed. Returns the fingerprints of what this rank owns: of the store's
// numbers where they are f32 in host memory, else of what was read.
Fingerprints fill_store(ParamStore&, Ops&, std::span<const StateKind> kinds, TensorReader&);

}  // namespace fp
