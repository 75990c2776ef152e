// Held-out loss.
#pragma once

#include <functional>

#include "data/sampler.h"
#include "exec/executor.h"

namespace fp {

// Batches that are on their way through the stages of a pipeline at a time; 1 without one.
int evaluation_batches(const Executor&);

struct EvaluationResult {
  double loss = 0;  // nats per token; under DPO the mean loss of the pairs
  double perplexity = 0;
  double bits_per_byte = 0;  // of the held-out text: comparable between tokenizers
  int64_t tokens = 0;        // or pairs
  double margin = 0;         // DPO: mean reward margin
  double accuracy = 0;       // DPO: share of pairs with a positive margin
};

// Runs every sample of the sampler, `micro_batch` at a time. The last batch is smaller when they do not divide. Each
// batch, of samples from `first` on, goes through `complete` before it is run.
EvaluationResult evaluate(Executor&, const ValidationSampler&, int64_t micro_batch, const Groups&,
                          const std::function<void(uint64_t first, Batch&)>& complete = {});

}  // namespace fp
