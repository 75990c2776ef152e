// Computes the loss on held-out data.
#pragma once

#include <functional>

#include "data/sampling/sampler.h"
#include "exec/executor.h"

namespace fp {

struct EvaluationResult {
  double loss = 0;  // nats per token; under DPO the mean loss of the pairs
  double perplexity = 0;
  double bits_per_byte = 0;  // of the held-out text: comparable between tokenizers
  int64_t tokens = 0;        // under DPO: pairs
  double margin = 0;         // DPO: mean reward margin
  double accuracy = 0;       // DPO: share of pairs with a positive margin
};

// Evaluates every sample of the sampler, `micro_batch` at a time; the last batch is smaller when they do not divide
// evenly. `complete` is called with each batch, which holds the samples from `first` on, before it is run.
EvaluationResult evaluate(Executor&, const ValidationSampler&, int64_t micro_batch, const Groups&,
                          const std::function<void(uint64_t first, Batch&)>& complete = {});

}  // namespace fp
