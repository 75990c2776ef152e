// The data of a run for its objective: samplers for training and validation, and DPO's reference scores.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/run_spec.h"
#include "data/sampling/sampler.h"
#include "inference/evaluation.h"
#include "train/reference_scores.h"

namespace fp {

class RunData {
 public:
  // Opens all datasets. Every rank of the world must call this: the ranks share the work of verifying files that have
  // changed since they were last verified. Throws ConfigError when the data does not match train.objective: sft needs a
  // loss mask, dpo preferences, pretrain neither.
  RunData(const RunSpec&, Group& world);

  const TrainSampler& train() const { return train_; }
  bool has_validation() const { return validation_.has_value(); }
  std::vector<std::string> held_out() const;  // the identity of each validation dataset
  // Throws DataError when a token is not in the model's vocabulary.
  void check_vocab(int64_t model_vocab) const;

  // Fills in samples [first, first + n) of the training order, including reference scores. Thread-safe.
  void fill(uint64_t first, int64_t n, Batch&) const;
  // `stop`: as in EvaluationOptions.
  EvaluationResult evaluate(Executor&, const RunSpec&, const Groups&, const std::function<bool()>& stop) const;

  // Returns DPO's reference scores; null for other objectives.
  ReferenceScores* reference() { return reference_ ? &*reference_ : nullptr; }
  const ReferenceScores* reference() const { return reference_ ? &*reference_ : nullptr; }

 private:
  RunData(const RunSpec&, WorkSharing&&);

  TrainSampler train_;
  std::optional<ValidationSampler> validation_;
  std::optional<ReferenceScores> reference_;
};

}  // namespace fp
