// Assigns the layers of a model to pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_spec.h"
#include "pipeline/schedule.h"

namespace fp {

// The part of a model in one stage: layers [first_layer, first_layer + layers). The first stage begins with the
// embedding, the last one ends with the LM head.
struct StagePart {
  int64_t first_layer = 0, layers = 0;
  bool embedding = false, head = false;
};

// The parts of a model that a rank holds.
struct HeldParts {
  bool embedding = true, head = true;
  std::vector<bool> layers = {};  // by layer; empty: all
  bool layer(int64_t l) const { return layers.empty() || layers[static_cast<size_t>(l)]; }
  bool everything() const;
};

// Cuts the layers as `layers` says or, if it is empty, such that the most expensive stage costs least. The cost is the
// FLOPs of the layers and of the LM head; those of the embedding are negligible. Throws ConfigError if there are more
// stages than layers + 2 or `layers` does not fit.
std::vector<StagePart> cut_into_stages(const ModelSection&, int64_t seq_len, const std::vector<int64_t>& layers,
                                       int stages);

// Returns the parts of the model that a pipeline rank holds.
HeldParts held_by(const std::vector<StagePart>&, const Placement&, int rank);

}  // namespace fp
