// Time and memory of the parts of a model on a rank: embedding, each kind of layer, LM head. The costs of pipeline
// stages and steps are sums of these.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "pipeline/memory.h"
#include "planner/costs.h"

namespace fp {

struct PassSeconds {
  double total = 0;
  double exposed = 0;  // part of `total`: waiting for communication
  double copies = 0;   // part of `total`: waiting for copies between device and host
  PassSeconds& operator+=(const PassSeconds& o) {
    total += o.total;
    exposed += o.exposed;
    copies += o.copies;
    return *this;
  }
};

// Costs of one part for one micro-batch.
struct PartCosts {
  PassSeconds forward, backward_input, backward_weight, backward;  // the last: input and weight gradients at once
  StageBytes bytes;
  int64_t parameters = 0;  // elements in the rank's buffers, padding included

  // Costs of both parts in one stage: times and kept bytes add up, the larger working memory counts.
  PartCosts& operator+=(const PartCosts&);
};

// Whether sequences pass through the layers in several chunks.
bool in_chunks(const RunSpec&);

// Returns the costs of a layer that keeps its input on the device.
PartCosts without_offload(PartCosts);

struct ModelCosts {
  PartCosts embedding, head;      // all passes of the LM head count as backward, as the executor runs them
  std::vector<PartCosts> layers;  // layer l costs the same as layers[l % layers.size()]
  int64_t shared = 0;             // parameters that embedding and LM head share
  const PartCosts& layer(int64_t l) const { return layers[static_cast<size_t>(l) % layers.size()]; }
};

// Returns the costs on a rank with tensor and sequence index 0, which has no less work than others, under `recompute`.
// The spec must be resolved and its vocabulary known; its pipeline and data ranks do not matter.
ModelCosts part_costs(const RunSpec&, Recompute, const CostModel&, CountingOps&);

}  // namespace fp
