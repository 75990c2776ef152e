// From the losses of tokens to those of a step: sums over units, and under DPO how hard to pull on each row.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "config/run_spec.h"
#include "data/batch.h"
#include "model/ends.h"

namespace fp {

// Sums over units: the valid targets or, under DPO, the pairs. Of one rank's tokens, and of the batches whose last
// stage it ran: sums over the tokens and the pipeline groups are the step's.
struct LossSums {
  double loss = 0.0;  // cross entropy of the targets, or loss of the pairs
  double z = 0.0;     // sum of squared log-sum-exp over valid targets
  int64_t units = 0;
  int64_t target_bytes = 0;
  double margin = 0.0;    // DPO: of the reward margins
  int64_t preferred = 0;  // DPO: pairs whose margin is positive
  double mean() const { return units > 0 ? loss / static_cast<double>(units) : 0.0; }
  LossSums& operator+=(const LossSums&);
  void sum_over(const Groups&);
  // All of them as numbers that can be added up, and back.
  static constexpr size_t kNumbers = 6;
  std::array<double, kNumbers> numbers() const;
  static LossSums from(std::span<const double, kNumbers>);
};

struct LossOptions {
  double z_loss = 0.0;
  int64_t chunk = 1024;
  std::optional<DpoSpec> dpo = {};  // batches hold pairs: rows 2i chosen, 2i + 1 rejected, with their reference_logp
};

class Losses {
 public:
  Losses(const ModelEnv& env, const Groups& groups, const LossOptions& options)
      : env_(&env), groups_(&groups), options_(options) {}

  // What the loss of a step is, of all its units on all ranks.
  LossSpec spec(std::span<const Batch> micro_batches) const;
  // What plain losses of tokens are.
  LossSpec of_tokens() const { return {1.0, 0.0, options_.chunk}; }
  bool pulls_by_row() const { return options_.dpo.has_value(); }

  // Of one batch, from the losses [M,2] of my tokens; under DPO also the factor of each row's gradient.
  LossSums sums(const Batch&, const Tensor& losses, std::vector<double>* row_scales = nullptr) const;
  // The cross entropy of each whole row.
  std::vector<double> rows(const Batch&, const Tensor& losses) const;

 private:
  std::vector<double> sum_rows(const Batch&, const std::vector<float>& losses) const;

  const ModelEnv* env_;
  const Groups* groups_;
  LossOptions options_;
};

}  // namespace fp
