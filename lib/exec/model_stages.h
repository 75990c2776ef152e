// ModelStages: the stages of a model on one rank, run by the executor's loop. Keeps the state of each micro-batch in a
// stage between its passes.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "exec/device_batch.h"
#include "exec/gradient_sync.h"
#include "exec/losses.h"
#include "exec/offloaded_input.h"
#include "exec/stage_work.h"
#include "exec/weight_gather.h"
#include "model/model.h"
#include "sharding/stages.h"

namespace fp {

class ModelStages final : public StageWork {
 public:
  ModelStages(Model&, const Groups&, const std::vector<StagePart>&, const Losses&, WeightGather&, GradientSync&);

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
  ArenaTensor forward(const Action&, ArenaTensor x) override;
  ArenaTensor backward_input(const Action&, ArenaTensor dy) override;
  void backward_weight(const Action&, bool reduces) override;
  ArenaTensor backward(const Action&, ArenaTensor dy, bool reduces) override;
  void gather(int stage) override;
  void free(int stage) override;
  void reduce(int stage) override;

 private:
  // State of a micro-batch in a stage between its passes.
  struct MicroBatchState {
    std::vector<BlockState> blocks;
    std::vector<OffloadedInput> inputs;  // of the blocks
    ArenaTensor top;                     // input of the LM head
    ArenaTensor embedding;               // gradient of the embedding's output
  };
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
  const MicroBatch& micro_batch_of(const Action& a) { return uploaded_.at(schedule_->batch_of(a)).batch.view; }
  MicroBatchState& state_of(const Action& a) { return states_.at({a.pipe, a.stage, a.micro_batch}); }
  void enter(const Action&);
  void leave(const Action&);
  // Labels the memory that is allocated from now on.
  void begin(std::string_view what, int64_t layer = -1);
  void tick();
  std::vector<int> units(int stage) const;

  ArenaTensor run_embedding(const MicroBatch&);
  ArenaTensor run_layers(const StagePart&, ArenaTensor x, const MicroBatch&, MicroBatchState*);
  // Whether layer l of the stage keeps its input in host memory.
  bool offloads(const StagePart&, int64_t l) const;
  // Brings the input of layer l back to the device, and begins to bring that of the layer below.
  void take_input(const StagePart&, MicroBatchState&, int64_t l);
  ArenaTensor run_head(const Action&);                    // -> gradient of the LM head's input
  void run_head_forward(const Action&, ArenaTensor top);  // losses only
  void acquire_head(int next);
  void release_head();
  void release_state(const Action&, bool reduces);
  void read_losses(int keep);
  void reduce_unit(int unit, int stage);
  void reduce_head(int stage);

  Model* model_;
  const Groups* groups_;
  const std::vector<StagePart>* parts_;
  const Losses* losses_;
  WeightGather* weights_;
  GradientSync* gradients_;

  const Schedule* schedule_ = nullptr;
  std::span<const Batch> batches_;
  LossSpec spec_;
  bool training_ = false;
  int current_ = -1;                                             // batch of the current action
  std::map<std::tuple<int, int, int>, MicroBatchState> states_;  // by pipe, stage and micro-batch
  std::map<int, UploadedBatch> uploaded_;                        // by batch
  std::vector<Loss> unread_;                                     // losses that are still on the device
  std::vector<LossSums> sums_;                                   // by batch
  std::map<int, int> sums_to_come_;                              // by unit: reductions still to come in this step
};

}  // namespace fp
