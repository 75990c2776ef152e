// Which layers each pipeline stage has.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_spec.h"
#include "schedule/schedule.h"

namespace fp {

// Layers [first_layer, first_layer + layers); the first stage begins with the stem, the last one ends with the head.
struct StagePart {
  int64_t first_layer = 0, layers = 0;
  bool stem = false, head = false;
};

// The parts of a model that a rank holds.
struct HeldParts {
  bool stem = true, head = true;
  std::vector<bool> layers = {};  // by layer; empty: all
  bool layer(int64_t l) const { return layers.empty() || layers[static_cast<size_t>(l)]; }
  bool everything() const;
};

// Cuts the layers as `layers` says, or, empty, so that the most expensive stage costs least: counted are the FLOPs of
// a layer and of the head; the embedding has next to none. ConfigError when `layers` does not fit.
std::vector<StagePart> cut_into_stages(const ModelSection&, int64_t seq_len, const std::vector<int64_t>& layers,
                                       int stages);

HeldParts held_by(const std::vector<StagePart>&, const Placement&, int rank);

}  // namespace fp
