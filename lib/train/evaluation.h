// Held-out loss.
#pragma once

#include "data/sampler.h"
#include "exec/executor.h"

namespace fp {

struct EvaluationResult {
  double loss = 0;  // nats per token
  double perplexity = 0;
  double bits_per_byte = 0;  // of the held-out text: comparable between tokenizers
  int64_t tokens = 0;
};

// Runs every sample of the sampler, `micro_batch` at a time. The last batch is smaller when they do not divide.
EvaluationResult evaluate(Executor&, const ValidationSampler&, int64_t micro_batch, const Groups&);

}  // namespace fp
