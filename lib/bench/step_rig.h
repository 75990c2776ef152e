// A model that trains on random tokens, for benchmarks; also runs without memory on counting ops.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "data/sampling/batch.h"
#include "exec/executor.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace fp {

// Returns the micro-batches of a data-parallel rank in one step, filled with random tokens.
std::vector<Batch> random_batches(const RunSpec&, int data_ranks = 1);

// The spec must have model.vocab; spec, arena and ops must outlive this.
class StepRig {
 public:
  // On one rank. `synchronous_update`: see ExecutorOptions.
  StepRig(const RunSpec&, Arena&, Ops&, Arena* host = nullptr, bool synchronous_update = false);
  // On a rank of a mesh.
  StepRig(const RunSpec&, const PipelinePlan&, Arena&, Ops&, Arena* host, const Groups&);
  // Initialises the weights. Call it first; on counting ops only if its memory counts.
  void initialize();
  // Runs forward, backward, clipping and update; returns when the device is done.
  void step();
  // The two parts of a step: the passes of all micro-batches, and the rest. Each returns when the device is done.
  void run_passes();
  void run_update();

 private:
  const RunSpec& spec_;
  Groups groups_;
  Model model_;
  Executor executor_;
  std::vector<Batch> batches_;
  Ops& ops_;
  int64_t count_ = 0;
};

}  // namespace fp
