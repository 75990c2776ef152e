// Executor: runs one rank's part of a training step. The only place that decides in which order the pieces of the model
// run. With one rank and no pipeline a step is: each micro-batch forward and backward, then the optimizer.
#pragma once

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
};

// Sums over tokens; divide by the global number of valid targets.
struct LossSums {
  double cross_entropy = 0.0;
  double z = 0.0;  // sum of squared log-sum-exp over valid tokens
  int64_t valid_targets = 0;
  int64_t target_bytes = 0;
  double mean() const { return valid_targets > 0 ? cross_entropy / static_cast<double>(valid_targets) : 0.0; }
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
  // Forward only, without dropout, of one micro-batch.
  LossSums evaluate(const Batch&);
  // f32 [n, seq_len, vocab] as they enter the softmax, without dropout.
  std::vector<float> logits(const Batch&);

  // After a step went non-finite: runs it again part by part and names the first tensor with a bad value, its layer and
  // the samples it belongs to. Call before the weights change.
  std::string diagnose(std::span<const Batch> micro_batches);

 private:
  struct Staged;  // a batch on the device
  Staged stage(const Batch&, bool training);
  ArenaTensor forward(const MicroBatch&);  // stem and blocks, nothing kept for a backward pass
  LossSums sums(const Batch&, const Tensor& loss);

  Model* model_;
  Groups groups_;
  ExecutorOptions options_;
  std::vector<ParamRange> ranges_;
};

}  // namespace fp
