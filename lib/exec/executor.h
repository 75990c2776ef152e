// Executor: runs one rank's part of a training step: its list of actions, then the optimizer. It alone decides in which
// order the parts of the model run and when ranks communicate. Every rank of the mesh makes the same calls. A rank
// passes the whole batches of its data-parallel index, which are the same on all stages.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sampling/batch.h"
#include "exec/early_gradients.h"
#include "exec/gradient_squares.h"
#include "exec/matrix_update.h"
#include "exec/model_stages.h"
#include "exec/replicas.h"
#include "optim/optimizer.h"
#include "sharding/pipeline_plan.h"

namespace fp {

struct ExecutorOptions {
  LossOptions loss = {};
  std::optional<uint64_t> rounding_seed = {};  // bf16 weights are rounded stochastically from the master weights
  std::optional<PipelinePlan> pipeline = {};   // empty: the model is one stage, on every rank
  double device_share = 1;                     // fraction of offloaded state that the device updates, not the host
  bool early_gradients = false;                // send the gradients of host updates during the backward pass
  bool synchronous_update = false;             // the host updates all offloaded state, without overlap: for comparison
  bool check_sums = false;                     // verify the gradient sums over data ranks by checksums
  double max_gradient_error = 0;               // limit on the error of quantized sums (GradientGuard); 0: no limit
  bool assume_within_limit = false;            // start as if all errors were within that limit, for dry runs
  int64_t error_feedback_steps = 0;            // updates after which kept quantization errors are reset to 0; 0: never
};

struct GradientNorm {
  double norm = 0.0;
  bool finite = true;
};

class Executor {
 public:
  // Every rank constructs its executor at the same point, as this creates groups.
  Executor(Model&, const ExecutorOptions&);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs forward and backward of all micro-batches of a step and leaves the mean gradient, summed over the ranks, in
  // the parameter store. Returns the sums over this rank's tokens in the batches whose last stage it ran.
  LossSums accumulate(std::span<const Batch> micro_batches);
  // Returns the global L2 norm of the gradients, the same on every rank. The same collective turns `sums`, the result
  // of accumulate(), into those of the whole step; a loss that is not finite on one rank becomes so on all, so that all
  // ranks treat the step alike. With check_sums and a norm that is not finite, throws DeviceError as update() does.
  GradientNorm gradient_norm(LossSums& sums);
  GradientNorm gradient_norm();
  // Returns the object that chooses the bits of quantized sums at the end of gradient_norm(); null if sums are not
  // quantized or their error has no limit.
  GradientGuard* gradient_guard() { return guard_ ? &*guard_ : nullptr; }
  const GradientGuard* gradient_guard() const { return guard_ ? &*guard_ : nullptr; }
  // Checksums of this rank's gradients after accumulate(): equal when a step is repeated on correct hardware.
  struct GradientChecksums {
    std::vector<uint32_t> contributed;  // computed by this rank, independent of other ranks; empty without check_sums
    std::vector<int32_t> reduced;       // after the reduction
    bool operator==(const GradientChecksums&) const = default;
  };
  GradientChecksums gradient_checksums();
  // Injects a fault: flips a bit of this rank's weights or moments now, of the gradients that it contributes to the
  // next sum over data ranks, or of the sum that it receives.
  enum class Flipped : uint8_t { weights, moments, gradients, sums };
  void flip(Flipped, const BitFlip&);
  // Injects a fault: from now on, the gradients of a channel are multiplied. Throws as check(GradientOutlier).
  void set_outlier(const GradientOutlier&);
  // Clips and applies the gradients; step counts from 1. With check_sums, throws DeviceError if a sum over the data
  // ranks is not the sum of their contributions; the state is then unusable. `sum_state`: return the sums for
  // check_replicas().
  StateSums update(const OptimizerSection&, double lr, int64_t step, double norm, bool sum_state = false);
  // Restores the compute weights of all shards as the update of this step (from 1; 0: none yet) left them. Call after
  // this rank's shard was loaded or initialised.
  void restore_weights(int64_t step);
  // Waits for updated weights. Call before they are read other than by this executor.
  void settle_weights() { weights_.settle(); }
  // Completes an update on all ranks: gathers the updated weights, or adds the weight differences. update() calls it; a
  // dry run that counts several steps calls it between them.
  void complete_update();
  // Receives the losses of this rank's targets of a micro-batch whose last stage it ran.
  using OnTargets = std::function<void(size_t micro_batch, std::span<const TargetLoss>)>;
  // Runs forward only, without dropout. Returns the sums of each micro-batch; zero if another rank ran its last stage.
  // Several micro-batches at a time keep the stages of a pipeline busy.
  std::vector<LossSums> evaluate(std::span<const Batch> micro_batches, const OnTargets& on_targets = {});
  // Returns the cross entropy of each row of a batch, summed over its targets: minus the log-probability of the row's
  // answer. The same on all stages.
  std::vector<double> row_losses(const Batch&);
  // Returns the logits f32 [n, seq_len, vocab] as they enter the softmax, without dropout. Runs on one rank only.
  std::vector<float> logits(const Batch&);
  int stages() const { return plan_.placement.stages(); }
  // Number of batches to pass to evaluate() at a time: 1, or with a pipeline twice its ranks, so that few ranks idle
  // and no more messages wait between chunks than in training. Several share weights that have to come to the device.
  int evaluation_batches() const {
    constexpr int kShareWeights = 4;
    if (plan_.placement.ranks > 1) return 2 * plan_.placement.ranks;
    return stages() > 1 && plan_.lowering.gather ? kShareWeights : 1;
  }

  // After a non-finite step: runs it again part by part and returns text that names the first tensor with a non-finite
  // value, its layer and the samples it belongs to. Call before the weights change.
  std::string diagnose(std::span<const Batch> micro_batches);

 private:
  // Whether all micro-batches of a step pass through a stage of this rank before the next one.
  bool breadth_first() const { return plan_.placement.ranks == 1 && stages() > 1; }
  const Schedule& step_schedule(int micro_batches);
  std::vector<ArenaTensor> token_losses(std::span<const Batch>);

  Model* model_;
  Groups groups_;
  ExecutorOptions options_;
  PipelinePlan plan_;
  std::map<int, Schedule> steps_, evaluations_;  // by micro-batches
  WeightGather weights_;
  std::optional<GradientGuard> guard_;
  GradientSync gradients_;
  std::optional<EarlyGradients> early_;
  std::optional<GradientSquares> squares_;  // where gradients leave the device
  std::optional<MatrixUpdate> matrices_;    // with Muon
  Losses losses_;
  StageLinks links_;
  ModelStages stages_;
};

}  // namespace fp
