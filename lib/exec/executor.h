// Executor: runs one rank's part of a training step: its list of actions, then the optimizer. The only place that
// decides in which order the pieces of the model run and when ranks communicate. Every rank of the mesh makes the same
// calls; batches are those of its data-parallel index, whole, the same on all stages.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "exec/model_stages.h"
#include "optim/optimizer.h"
#include "plan/pipeline.h"

namespace fp {

struct ExecutorOptions {
  LossOptions loss = {};
  std::optional<uint64_t> rounding_seed = {};  // bf16 weights are rounded stochastically from the master weights
  std::optional<PipelinePlan> pipeline = {};   // empty: the model is one stage, on every rank
  bool check_sums = false;                     // gradient_norm() proves the sums of gradients over data ranks
};

struct GradientNorm {
  double norm = 0.0;
  bool finite = true;
};

class Executor {
 public:
  // Every rank makes its executor at the same place.
  Executor(Model&, const ExecutorOptions&);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Forward and backward of all micro-batches of a step: leaves the mean gradient, summed over the ranks, in the
  // parameter store. What comes back is of this rank's tokens and last stages.
  LossSums accumulate(std::span<const Batch> micro_batches);
  // Global L2 norm of the gradients, the same on every rank. `sums`, what accumulate() gave, become those of the step
  // by the same message: a loss that is not finite on any rank is not on all, so all judge the step alike. With
  // check_sums, DeviceError where a sum over the data ranks is not the sum of what they gave.
  GradientNorm gradient_norm(LossSums& sums);
  GradientNorm gradient_norm();
  // Tells the gradients that this rank has computed and holds after accumulate() from any others: equal when a step is
  // repeated, as long as the hardware computes right. The first of the two does not depend on other ranks.
  struct GradientMarks {
    std::vector<uint32_t> given;
    std::vector<int32_t> held;
    bool operator==(const GradientMarks&) const = default;
  };
  GradientMarks gradient_marks();
  // A fault on purpose: a bit of this rank's weights or moments now, of the gradients that it gives to the next sum
  // over data ranks, or of the sum that it receives.
  enum class Flipped : uint8_t { weights, moments, gradients, sums };
  void flip(Flipped, const BitFlip&);
  // Clips and applies the gradients; step counts from 1.
  void update(const OptimizerSection&, double lr, int64_t step, double norm);
  // After the master weights were loaded or initialised: the compute weights of all shards, as the update of this step
  // (from 1; 0: none yet) had left them.
  void restore_weights(int64_t step);
  // Forward only, without dropout: of each micro-batch, zero where its last stage is another rank's. Several at a time
  // keep the stages of a pipeline busy.
  std::vector<LossSums> evaluate(std::span<const Batch> micro_batches);
  // The cross entropy of each row of a batch, summed over all of its targets: minus the log-probability of a row's
  // answer. The same on all stages.
  std::vector<double> row_losses(const Batch&);
  // On one rank: f32 [n, seq_len, vocab] as they enter the softmax, without dropout.
  std::vector<float> logits(const Batch&);
  int pipeline_ranks() const { return plan_.placement.ranks; }

  // After a step went non-finite: runs it again part by part and names the first tensor with a bad value, its layer and
  // the samples it belongs to. Call before the weights change.
  std::string diagnose(std::span<const Batch> micro_batches);

 private:
  const Schedule& step_schedule(int micro_batches);
  std::vector<ArenaTensor> token_losses(std::span<const Batch>);

  Model* model_;
  Groups groups_;
  ExecutorOptions options_;
  PipelinePlan plan_;
  std::map<int, Schedule> steps_, evaluations_;  // by micro-batches
  WeightGather weights_;
  GradientSync gradients_;
  Losses losses_;
  StageLinks links_;
  ModelStages stages_;
};

}  // namespace fp
