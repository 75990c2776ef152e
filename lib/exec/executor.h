// Executor: runs one rank's part of a training step. The only place that decides in which order the pieces of the model
// run. With one rank and no pipeline a step is: each micro-batch forward and backward, then the optimizer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "model/model.h"
#include "optim/optimizer.h"

namespace fp {

struct ExecutorOptions {
  double z_loss = 0.0;
  int64_t loss_chunk = 1024;
  std::optional<uint64_t> rounding_seed = {};  // bf16 weights are rounded stochastically from the master weights
  std::optional<DpoSpec> dpo = {};  // batches hold pairs: rows 2i chosen, 2i + 1 rejected, with their reference_logp
};

// Sums over units: the valid targets or, under DPO, the pairs. Divide by the global number of units.
struct LossSums {
  double loss = 0.0;  // cross entropy of the targets, or loss of the pairs
  double z = 0.0;     // sum of squared log-sum-exp over valid targets
  int64_t units = 0;
  int64_t target_bytes = 0;
  double margin = 0.0;    // DPO: of the reward margins
  int64_t preferred = 0;  // DPO: pairs whose margin is positive
  double mean() const { return units > 0 ? loss / static_cast<double>(units) : 0.0; }
  LossSums& operator+=(const LossSums&);
};

struct GradientNorm {
  double norm = 0.0;
  bool finite = true;
};

class Executor {
 public:
  Executor(Model&, const Groups&, const ExecutorOptions&);

  // Forward and backward of all micro-batches of a step: leaves the mean gradient in the parameter store.
  LossSums accumulate(std::span<const Batch> micro_batches);
  // Global L2 norm of the gradients.
  GradientNorm gradient_norm();
  // Clips and applies the gradients; step counts from 1.
  void update(const OptimizerSection&, double lr, int64_t step, double norm);
  // After a load: the weights as the update of this step (from 1; 0: none yet) had left them.
  void restore_weights(int64_t step);
  // Forward only, without dropout, of one micro-batch.
  LossSums evaluate(const Batch&);
  // The cross entropy of each row of a batch, summed over its targets: minus the log-probability of a row's answer.
  std::vector<double> row_losses(const Batch&);
  // f32 [n, seq_len, vocab] as they enter the softmax, without dropout.
  std::vector<float> logits(const Batch&);

  // After a step went non-finite: runs it again part by part and names the first tensor with a bad value, its layer and
  // the samples it belongs to. Call before the weights change.
  std::string diagnose(std::span<const Batch> micro_batches);

 private:
  struct Staged;  // a batch on the device
  Staged stage(const Batch&, bool training);
  ArenaTensor forward(const MicroBatch&);  // stem and blocks, nothing kept for a backward pass
  LossSpec loss_spec(std::span<const Batch> micro_batches) const;
  // Of one micro-batch, from the losses of its tokens; under DPO also the factor of each row's gradient.
  LossSums sums(const Batch&, const Tensor& loss, std::vector<double>* row_scales = nullptr) const;

  Model* model_;
  Groups groups_;
  ExecutorOptions options_;
  std::vector<ParamRange> ranges_;
};

}  // namespace fp
