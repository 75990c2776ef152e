// What a pipeline stage does for a micro-batch, and the loop that runs a rank's list of actions on it. The loop knows
// nothing of models, so that it can also run stages that only take time.
#pragma once

#include "exec/stage_links.h"
#include "schedule/schedule.h"
#include "tensor/arena.h"

namespace fp {

class StageWork {
 public:
  virtual ~StageWork() = default;
  // Room for the input of the action's stage, or for the gradient of its output.
  virtual ArenaTensor room(const Action&) = 0;
  // Input (none of the first stage) -> output (none of the last).
  virtual ArenaTensor forward(const Action&, ArenaTensor x) = 0;
  // Gradient of the output (none of the last stage) -> gradient of the input (none of the first). `reduces`: no more
  // gradients of the stage will come before their sum over the ranks, so each part may begin as soon as it is complete.
  virtual ArenaTensor backward_input(const Action&, ArenaTensor dy) = 0;
  virtual void backward_weight(const Action&, bool reduces) = 0;
  virtual ArenaTensor backward(const Action&, ArenaTensor dy, bool reduces) = 0;
  virtual void gather(int stage) = 0;
  virtual void free(int stage) = 0;
  virtual void reduce(int stage) = 0;
};

// This rank's list, from the first action to the last. Messages are all gone and come when it returns.
void run_actions(const Schedule&, int rank, StageWork&, StageLinks&);

}  // namespace fp
