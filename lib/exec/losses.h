// Computes the loss of a step from the losses of its tokens: sums over units and, for DPO, the gradient scale of each
// row.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "config/run_spec.h"
#include "data/sampling/batch.h"
#include "model/lm_head.h"

namespace fp {

// Sums over loss units: the valid targets or, for DPO, the pairs. They cover one rank's tokens in the batches whose
// last stage it ran; their sums over the token and pipeline groups are those of the step.
struct LossSums {
  double loss = 0.0;  // cross entropy of the targets, or loss of the pairs
  double z = 0.0;     // sum of squared log-sum-exp over valid targets
  int64_t units = 0;
  int64_t target_bytes = 0;
  double margin = 0.0;    // DPO: sum of the reward margins
  int64_t preferred = 0;  // DPO: pairs whose margin is positive
  double mean() const { return units > 0 ? loss / static_cast<double>(units) : 0.0; }
  LossSums& operator+=(const LossSums&);
  // Adds up the sums of all ranks of the token and pipeline groups, on each of them.
  void sum_over(const Groups&);
  // Converts all members to numbers that can be added up, and back.
  static constexpr size_t kNumbers = 6;
  std::array<double, kNumbers> numbers() const;
  static LossSums from(std::span<const double, kNumbers>);
};

// The cross entropy of one target, at a position of a row of its batch.
struct TargetLoss {
  int64_t row = 0, position = 0;
  double loss = 0;
};

struct LossOptions {
  double z_loss = 0.0;
  int64_t chunk_tokens = 1024;
  std::optional<DpoSpec> dpo = {};  // batches hold pairs: rows 2i chosen, 2i + 1 rejected, with their reference_logp
};

class Losses {
 public:
  Losses(const ModelEnv& env, const Groups& groups, const LossOptions& options)
      : env_(&env), groups_(&groups), options_(options) {}

  // Returns the loss specification of a step: the mean over its units on all ranks. Collective over the token group.
  LossSpec spec(std::span<const Batch> micro_batches) const;
  // Returns the specification of plain cross entropy: scale 1, no z-loss.
  LossSpec of_tokens() const { return {1.0, 0.0, options_.chunk_tokens}; }
  // Whether each row's gradient is scaled by its pair's margin (DPO).
  bool has_row_weights() const { return options_.dpo.has_value(); }

  // Returns the sums of one batch, from the losses [M,2] of this rank's tokens. For DPO also appends the factor of each
  // row's gradient to `row_scales`.
  LossSums sums(const Batch&, const Tensor& losses, std::vector<double>* row_scales = nullptr) const;
  // Returns those of this rank's targets that are not ignored.
  std::vector<TargetLoss> targets(const Batch&, const Tensor& losses) const;
  // Returns the cross entropy of each whole row, from the losses [M,2] of this rank's tokens.
  std::vector<double> rows(const Batch&, const Tensor& losses) const;

 private:
  std::vector<double> sum_rows(const Batch&, const std::vector<float>& losses) const;

  const ModelEnv* env_;
  const Groups* groups_;
  LossOptions options_;
};

}  // namespace fp
