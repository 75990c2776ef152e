// The data of a run, as its objective needs it: samplers, what they may hold, and DPO's reference scores.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/run_spec.h"
#include "data/sampler.h"
#include "train/evaluation.h"
#include "train/reference_scores.h"

namespace fp {

class RunData {
 public:
  // Opens everything; the ranks of the world, which all do, verify together what has changed since it was verified.
  // ConfigError when train.objective does not go with the data: sft needs a loss mask, dpo preferences, pretrain
  // neither.
  RunData(const RunSpec&, Group& world);

  const TrainSampler& train() const { return train_; }
  bool has_validation() const { return validation_.has_value(); }
  std::vector<std::string> held_out() const;  // the identity of each dataset that is evaluated on
  // DataError when a token is not in the model's vocabulary.
  void check_vocab(int64_t model_vocab) const;

  // Samples [first, first + n) of the training order, complete with reference scores. Thread-safe.
  void fill(uint64_t first, int64_t n, Batch&) const;
  EvaluationResult evaluate(Executor&, int64_t micro_batch, const Groups&) const;

  // DPO's reference scores, null under other objectives.
  ReferenceScores* reference() { return reference_ ? &*reference_ : nullptr; }

 private:
  RunData(const RunSpec&, WorkSharing&&);

  TrainSampler train_;
  std::optional<ValidationSampler> validation_;
  std::optional<ReferenceScores> reference_;
};

}  // namespace fp
