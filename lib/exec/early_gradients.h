// EarlyGradients: sends the gradients of subgroups that the host updates to host memory as soon as they are complete,
// while the backward pass continues (memory.offload.early_gradients).
#pragma once

#include <vector>

#include "exec/subgroups.h"
#include "optim/update_schedule.h"

namespace fp {

class EarlyGradients {
 public:
  // Takes memory of the host's arena for all of these gradients, as much on all ranks of the data group.
  EarlyGradients(const ModelEnv&, double device_share);
  ~EarlyGradients();
  EarlyGradients(const EarlyGradients&) = delete;
  EarlyGradients& operator=(const EarlyGradients&) = delete;

  // Call before a step changes gradients: makes its ops wait for what was sent.
  void begin_step();
  // Starts to copy the gradients of a unit, which must be complete for the step; call again if they change afterwards.
  void send(int unit);
  // Returns the gradient of subgroup i in host memory, in the type in which it is kept.
  Tensor gradient(size_t i) const;
  // Sends the gradients that were not yet sent in this step, as where an update is planned without a backward pass.
  void send_rest();
  // Returns the last copy.
  CopyTicket last() const;

 private:
  void send_subgroup(size_t i);

  const ModelEnv* env_;
  std::vector<Subgroup> subgroups_;
  std::vector<UpdatePlace> places_;
  ArenaTensor memory_;
  std::vector<int64_t> first_;    // by subgroup: its first element in `memory_`
  std::vector<CopyTicket> sent_;  // by subgroup
};

}  // namespace fp
