// ModelStages: the stages of a model on one rank, run by the executor's loop. Keeps the state of each micro-batch in a
// stage between its passes.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "exec/device_batch.h"
#include "exec/gradient_sync.h"
#include "exec/losses.h"
#include "exec/stage_state.h"
#include "exec/stage_work.h"
#include "exec/unit_reductions.h"
#include "exec/weight_gather.h"
#include "model/model.h"
#include "sharding/stages.h"

namespace fp {

class ModelStages final : public StageWork {
 public:
  // `breadth_first`: of the micro-batches of a step, all pass through a stage of this rank before the next one.
  ModelStages(Model&, const Groups&, const std::vector<StagePart>&, const Losses&, WeightGather&, GradientSync&,
              bool breadth_first = false);

  // Begins a training step or an evaluation (forward passes alone), to which the following actions belong. Keep
  // references to the schedule and the batches.
  void begin_step(const Schedule&, std::span<const Batch>, const LossSpec&);
  void begin_evaluation(const Schedule&, std::span<const Batch>);
  // Returns the sums of each batch; zero for those whose last stage ran elsewhere.
  std::vector<LossSums> end_step();
  // Returns the losses [M,2] of each batch's tokens; empty for those whose last stage ran elsewhere.
  std::vector<ArenaTensor> end_evaluation();

  // Returns the input of the LM head, without dropout. The whole model must be on this rank.
  ArenaTensor hidden(const Batch&);

  ArenaTensor allocate_input(const Action&) override;
  ArenaTensor forward(const Action&, OffloadedTensor x) override;
  ArenaTensor backward_input(const Action&, ArenaTensor dy) override;
  void backward_weight(const Action&, bool reduces) override;
  ArenaTensor backward(const Action&, ArenaTensor dy, bool reduces) override;
  void gather(int stage) override;
  void free(int stage) override;
  void reduce(int stage) override;

 private:
  struct UploadedBatch {
    DeviceBatch batch;
    int uses = 0;  // stages of this rank that entered it and have not left it
  };
  struct Loss {
    int batch = 0;
    ArenaTensor tensor;
  };
  const StagePart& part(int stage) const { return (*parts_)[static_cast<size_t>(stage)]; }
  const Batch& batch(const Action& a) const { return batches_[static_cast<size_t>(schedule_->batch_of(a))]; }
  const DeviceBatch& micro_batch_of(const Action& a) { return uploaded_.at(schedule_->batch_of(a)).batch; }
  StageState& state_of(const Action& a) { return states_.at({a.pipe, a.stage, a.micro_batch}); }
  const Block& block(const StagePart& p, int64_t l) const {
    return model_->blocks()[static_cast<size_t>(p.first_layer + l)];
  }
  int unit(const StagePart& p, int64_t l) const { return model_->table().layer_unit(p.first_layer + l); }
  void enter(const Action&);
  void leave(const Action&);
  // Labels the memory that is allocated from now on.
  void begin(std::string_view what, int64_t layer = -1);
  void tick();

  StageState new_state(const StagePart&, size_t chunks) const;
  // Whether layer l restores its activations from its input alone.
  bool recomputes(const StagePart& p, int64_t l) const { return block(p, l).recompute() == Recompute::full; }
  // Whether the input of layer l, or after the last layer the output, leaves the device.
  bool leaves(const StagePart&, int64_t l, size_t chunks) const;
  // Whether the residual stream leaves the device between layers, and its gradient.
  bool offloads_stream(size_t chunks) const { return model_->env().host != nullptr && chunks > 1; }
  // Takes a chunk of the input of layer l or of the output; offloads it if it leaves.
  void put_input(const StagePart&, StageState&, int64_t l, size_t chunk, OffloadedTensor x);
  // Starts to bring what the backward pass begins with from host memory, for this action and the one after it.
  void fetch_ahead(const Action&);
  void fetch_first(const Action&);

  void run_embedding(const StagePart&, const DeviceBatch&, StageState&);
  // Returns the output of the whole micro-batch, or on the last stage leaves it in the state.
  ArenaTensor run_layers(const StagePart&, const DeviceBatch&, StageState&);
  // Returns the gradient of the stage's input, or on the first stage leaves it in the state. `fused`: also computes
  // weight gradients.
  ArenaTensor run_layers_backward(const Action&, bool fused, bool reduces);
  // Takes the gradient of the stage's output, or computes it from the loss.
  void begin_backward(const Action&, ArenaTensor dy);
  void put_gradient(StageState&, size_t chunk, ArenaTensor dx);
  void run_head(const Action&);                       // outputs -> losses, gradients of the outputs
  void run_head_forward(const Action&, StageState&);  // losses only
  void losses_of(const DeviceBatch&, StageState&, const Tensor& loss, const LossSpec&);
  void acquire_head(int next);
  void release_head();
  void release_state(const Action&, bool reduces);
  void read_losses(int keep);

  Model* model_;
  const Groups* groups_;
  const std::vector<StagePart>* parts_;
  const Losses* losses_;
  WeightGather* weights_;
  GradientSync* gradients_;
  UnitReductions reductions_;

  const Schedule* schedule_ = nullptr;
  std::span<const Batch> batches_;
  LossSpec spec_;
  bool training_ = false;
  bool breadth_first_;
  bool parks_ = false;   // what many micro-batches leave between stages waits in host memory
  size_t position_ = 0;  // of the last backward action in this rank's list
  int current_ = -1;     // batch of the current action
  std::map<std::tuple<int, int, int>, StageState> states_;  // by pipe, stage and micro-batch
  std::map<int, UploadedBatch> uploaded_;                   // by batch
  Departures departures_;                                   // to host memory
  std::vector<Loss> unread_;                                // losses that are still on the device
  std::vector<LossSums> sums_;                              // by batch
};

}  // namespace fp
