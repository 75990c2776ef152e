// A model in memory that trains on random tokens: what benchmarks measure, and what they play on counting Ops.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "data/batch.h"
#include "exec/executor.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace fp {

// One step's micro-batches of random tokens.
std::vector<Batch> random_batches(const RunSpec&);

// On one rank. The spec's model must have its vocabulary; spec, arena and ops must outlive this.
class StepRig {
 public:
  StepRig(const RunSpec&, Arena&, Ops&);
  void initialize();  // the weights: first, but not needed on counting Ops
  // Forward, backward, clipping and update; returns when the device is done.
  void step();

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
