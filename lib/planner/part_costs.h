// What the parts of a model cost a rank: stem, each kind of layer, head. Whatever a pipeline stage or a step takes is
// made of these.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "planner/costs.h"
#include "schedule/memory.h"

namespace fp {

struct PassSeconds {
  double total = 0;
  double exposed = 0;  // of it, waiting for communication
  PassSeconds& operator+=(const PassSeconds& o) {
    total += o.total;
    exposed += o.exposed;
    return *this;
  }
};

// Of one micro-batch.
struct PartCosts {
  PassSeconds forward, backward_input, backward_weight, backward;  // the last: both at once
  StageBytes bytes;
  int64_t parameters = 0;  // of the rank, as they lie in its buffers

  PartCosts& operator+=(const PartCosts&);  // one after the other; bytes: both kept, the larger working set
};

struct ModelCosts {
  PartCosts stem, head;           // the head's passes are all backward ones, as the executor runs them
  std::vector<PartCosts> layers;  // layer l costs what layers[l % layers.size()] does
  int64_t shared = 0;             // parameters that are both the stem's and the head's
  const PartCosts& layer(int64_t l) const { return layers[static_cast<size_t>(l) % layers.size()]; }
};

// Of a rank with tensor and sequence index 0, which has no less than others, under `recompute`. The spec must be
// resolved, with its vocabulary; its pipeline and data ranks do not matter.
ModelCosts part_costs(const RunSpec&, const std::string& recompute, const CostModel&, CountingOps&);

}  // namespace fp
