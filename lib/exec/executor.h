// Executor: runs one rank's part of a training step. The only place that decides in which order the pieces of the model
// run and when ranks communicate. Without a pipeline a step is: each micro-batch forward and backward, then the
// optimizer. Every rank of the mesh makes the same calls; batches are those of its data-parallel index, whole.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "exec/gradient_sync.h"
#include "exec/weight_gather.h"
#include "model/model.h"
#include "optim/optimizer.h"

namespace fp {

struct ExecutorOptions {
  double z_loss = 0.0;
  int64_t loss_chunk = 1024;
  std::optional<uint64_t> rounding_seed = {};  // bf16 weights are rounded stochastically from the master weights
  std::optional<DpoSpec> dpo = {};  // batches hold pairs: rows 2i chosen, 2i + 1 rejected, with their reference_logp
};

// Sums over units: the valid targets or, under DPO, the pairs. Of one rank's tokens: sums over the data group are the
// step's.
struct LossSums {
  double loss = 0.0;  // cross entropy of the targets, or loss of the pairs
  double z = 0.0;     // sum of squared log-sum-exp over valid targets
  int64_t units = 0;
  int64_t target_bytes = 0;
  double margin = 0.0;    // DPO: of the reward margins
  int64_t preferred = 0;  // DPO: pairs whose margin is positive
  double mean() const { return units > 0 ? loss / static_cast<double>(units) : 0.0; }
  LossSums& operator+=(const LossSums&);
  void sum_over(Group&);
};

struct GradientNorm {
  double norm = 0.0;
  bool finite = true;
};

class Executor {
 public:
  Executor(Model&, const Groups&, const ExecutorOptions&);

  // Forward and backward of all micro-batches of a step: leaves the mean gradient, summed over the ranks, in the
  // parameter store.
  LossSums accumulate(std::span<const Batch> micro_batches);
  // Global L2 norm of the gradients, the same on every rank.
  GradientNorm gradient_norm();
  // Clips and applies the gradients; step counts from 1.
  void update(const OptimizerSection&, double lr, int64_t step, double norm);
  // After the master weights were loaded or initialised: the compute weights of all shards, as the update of this step
  // (from 1; 0: none yet) had left them.
  void restore_weights(int64_t step);
  // Forward only, without dropout, of one micro-batch.
  LossSums evaluate(const Batch&);
  // The cross entropy of each row of a batch, summed over all of its targets: minus the log-probability of a row's
  // answer.
  std::vector<double> row_losses(const Batch&);
  // On one rank: f32 [n, seq_len, vocab] as they enter the softmax, without dropout.
  std::vector<float> logits(const Batch&);

  // After a step went non-finite: runs it again part by part and names the first tensor with a bad value, its layer and
  // the samples it belongs to. Call before the weights change.
  std::string diagnose(std::span<const Batch> micro_batches);

 private:
  // Units of the parameter table.
  int stem_unit() const { return 0; }
  int layer_unit(size_t l) const { return static_cast<int>(l) + 1; }
  int head_unit() const { return static_cast<int>(model_->table().units().size()) - 1; }
  bool tied() const { return model_->env().ids->head == model_->env().ids->embedding; }

  // Stem and blocks; a state for each block, or none: then nothing is kept for a backward pass.
  ArenaTensor forward(const MicroBatch&, std::vector<BlockState>* states);
  void backward(ArenaTensor dx, const MicroBatch&, std::vector<BlockState>&);
  // What the head needs to run, and a place for its gradients.
  void open_head(bool gradients);
  void close_head(bool gradients);
  void token_losses(const MicroBatch&, const Tensor& loss);
  LossSpec loss_spec(std::span<const Batch> micro_batches) const;
  // Of one micro-batch, from the losses of its tokens; under DPO also the factor of each row's gradient.
  LossSums sums(const Batch&, const Tensor& loss, std::vector<double>* row_scales = nullptr) const;
  std::vector<double> sum_rows(const Batch&, const std::vector<float>& losses) const;

  Model* model_;
  Groups groups_;
  std::shared_ptr<Group> copies_;
  ExecutorOptions options_;
  WeightGather weights_;
  GradientSync gradients_;
};

}  // namespace fp
