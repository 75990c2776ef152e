// Computes the loss on held-out data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/sampling/sampler.h"
#include "exec/executor.h"
#include "inference/position_loss.h"

namespace fp {

struct HeldOutLoss {
  double loss = 0;  // nats per token; under DPO the mean loss of the pairs
  double perplexity = 0;
  double bits_per_byte = 0;  // of the held-out text: comparable between tokenizers
  int64_t tokens = 0;        // under DPO: pairs
  double margin = 0;         // DPO: mean reward margin
  double accuracy = 0;       // DPO: share of pairs with a positive margin
};

struct EvaluationResult : HeldOutLoss {  // of all datasets together
  bool stopped = false;  // by EvaluationOptions::stop: the losses are those of what was evaluated until then
  // The loss of each dataset that has samples, with its label (Sampler::labels), if there are several; else empty.
  std::vector<std::pair<std::string, HeldOutLoss>> datasets;
  std::vector<PositionLoss> positions;           // if requested
  std::optional<PositionComparison> comparison;  // if requested
};

struct EvaluationOptions {
  int64_t micro_batch = 1;
  bool by_position = false;
  std::optional<ComparedRanges> compare = {};  // with by_position; the samples must overlap (check_compared_ranges)
  // Called with each batch, which holds the samples from `first` on, before it is run.
  std::function<void(uint64_t first, Batch&)> complete = {};
  // Receives the number of samples done, at the end of each round of all ranks.
  std::function<void(int64_t done)> on_progress = {};
  // Called before each round but the first on every rank, which all return the same: whether the evaluation ends there.
  std::function<bool()> stop = {};
};

// Evaluates every sample of the sampler, dataset by dataset and `micro_batch` at a time; the last batch of a dataset is
// smaller when they do not divide evenly.
EvaluationResult evaluate(Executor&, const ValidationSampler&, const Groups&, const EvaluationOptions&);

}  // namespace fp
