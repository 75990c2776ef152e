// The stages of a model on one rank: what the executor's loop runs. It keeps what a micro-batch leaves in a stage
// between its passes.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "exec/gradient_sync.h"
#include "exec/losses.h"
#include "exec/stage_work.h"
#include "exec/staged.h"
#include "exec/weight_gather.h"
#include "model/model.h"
#include "plan/stages.h"

namespace fp {

class ModelStages final : public StageWork {
 public:
  ModelStages(Model&, const Groups&, const std::vector<StagePart>&, const Losses&, WeightGather&, GradientSync&);

  // What the actions to come are about: a step, or forward passes alone.
  void begin_step(const Schedule&, std::span<const Batch>, const LossSpec&);
  void begin_evaluation(const Schedule&, std::span<const Batch>);
  // Of each batch; zero for those whose last stage ran elsewhere.
  std::vector<LossSums> end_step();
  // The losses [M,2] of each batch's tokens; empty for those whose last stage ran elsewhere.
  std::vector<ArenaTensor> end_evaluation();

  // All of a model on one rank, without dropout: what goes into the head.
  ArenaTensor hidden(const Batch&);

  ArenaTensor room(const Action&) override;
  ArenaTensor forward(const Action&, ArenaTensor x) override;
  ArenaTensor backward_input(const Action&, ArenaTensor dy) override;
  void backward_weight(const Action&, bool reduces) override;
  ArenaTensor backward(const Action&, ArenaTensor dy, bool reduces) override;
  void gather(int stage) override;
  void free(int stage) override;
  void reduce(int stage) override;

 private:
  // What a micro-batch leaves in a stage.
  struct Visit {
    std::vector<BlockState> blocks;
    ArenaTensor top;   // what goes into the head
    ArenaTensor stem;  // gradient of what came out of the stem
  };
  struct Held {
    Staged staged;
    int visits = 0;
  };
  struct Loss {
    int batch = 0;
    ArenaTensor tensor;
  };
  const StagePart& part(int stage) const { return (*parts_)[static_cast<size_t>(stage)]; }
  const Batch& batch(const Action& a) const { return batches_[static_cast<size_t>(schedule_->batch_of(a))]; }
  const MicroBatch& staged(const Action& a) { return held_.at(schedule_->batch_of(a)).staged.view; }
  Visit& visit(const Action& a) { return visits_.at({a.pipe, a.stage, a.micro_batch}); }
  void enter(const Action&);
  void leave(const Action&);
  // What the memory taken from now on is for.
  void begin(std::string_view what, int64_t layer = -1);
  void tick();
  std::vector<int> units(int stage) const;

  ArenaTensor run_stem(const MicroBatch&);
  ArenaTensor run_layers(const StagePart&, ArenaTensor x, const MicroBatch&, std::vector<BlockState>* states);
  ArenaTensor run_head(const Action&);                    // -> gradient of its input
  void run_head_forward(const Action&, ArenaTensor top);  // losses only
  void acquire_head(int next);
  void release_head();
  void end_visit(const Action&, bool reduces);
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
  int current_ = -1;                                   // batch of the action that runs
  std::map<std::tuple<int, int, int>, Visit> visits_;  // by pipe, stage and micro-batch
  std::map<int, Held> held_;                           // by batch
  std::vector<Loss> unread_;                           // losses on the device
  std::vector<LossSums> sums_;                         // by batch
  std::map<int, int> sums_to_come_;                    // of a unit's gradients in this step
};

}  // namespace fp
