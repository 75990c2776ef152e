// StageWork: the interface of the work of a rank's pipeline stages, and the loop that runs a rank's list of actions on
// it. The loop knows nothing of models, so that it can also run stages that only take time.
#pragma once

#include "exec/stage_links.h"
#include "pipeline/schedule.h"
#include "tensor/arena.h"

namespace fp {

class StageWork {
 public:
  virtual ~StageWork() = default;
  // Allocates the memory for a message: the input of the action's stage, or the gradient of its output.
  virtual ArenaTensor allocate_input(const Action&) = 0;
  // Takes the stage's input (empty for the first stage), which may be in host memory too, and returns its output (empty
  // for the last).
  virtual ArenaTensor forward(const Action&, OffloadedTensor x) = 0;
  // Take the gradient of the output (empty for the last stage) and return that of the input (empty for the first).
  // `reduces`: these are the stage's last gradients before a reduction, so that each unit's reduction may start as soon
  // as its gradient is complete; reduce() is then not called.
  virtual ArenaTensor backward_input(const Action&, ArenaTensor dy) = 0;
  virtual void backward_weight(const Action&, bool reduces) = 0;
  virtual ArenaTensor backward(const Action&, ArenaTensor dy, bool reduces) = 0;
  virtual void gather(int stage) = 0;
  virtual void free(int stage) = 0;
  virtual void reduce(int stage) = 0;
};

// Runs this rank's list from the first action to the last. All messages are complete when it returns.
void run_actions(const Schedule&, int rank, StageWork&, StageLinks&);

}  // namespace fp
