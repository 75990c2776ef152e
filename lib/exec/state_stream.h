// StateStream: brings the optimizer's state that lives in host memory to where it is updated. A subgroup that is
// updated on the device passes through it: it is fetched while the one before it is updated and the one before that is
// written back. One that is updated on the host gets its gradient, and sends back its weights, beside all this
// (optim/update_schedule.h). Weights and gradients that are in host memory too pass through the device like state.
#pragma once

#include <functional>
#include <vector>

#include "exec/early_gradients.h"
#include "exec/subgroups.h"
#include "optim/update_schedule.h"

namespace fp {

class StateStream {
 public:
  struct Updates {
    // Issues the ops that update subgroup i, all of whose tensors are on the device, with an f32 gradient.
    std::function<void(size_t i, const UpdateTensors&)> on_device;
    // Starts the ops of the host that update subgroup i, all of whose tensors are in host memory, after the copy
    // `after`, and returns the last. Not needed with a device share of 1.
    std::function<CopyTicket(size_t i, const UpdateTensors&, const CopyTicket& after)> on_host = {};
  };

  // How state in host memory is updated.
  struct Options {
    double device_share = 1;                // of the elements that is updated on the device
    bool synchronous = false;               // the host updates all, without overlap (synchronous_schedule())
    bool weights = true;                    // updates write the weights in the compute type
    const EarlyGradients* early = nullptr;  // has the gradients for the host; null: they are sent during the update
  };

  // `slots`: those that the subgroups have. Takes memory of the arenas for the buffers of the schedule, which is
  // returned on destruction.
  StateStream(const ModelEnv&, const std::vector<Subgroup>&, Subgroup::Slots slots, const Options&);
  StateStream(const ModelEnv& env, const std::vector<Subgroup>& subgroups, Subgroup::Slots slots = Subgroup::Slots::all)
      : StateStream(env, subgroups, slots, Options()) {}
  ~StateStream();
  StateStream(const StateStream&) = delete;
  StateStream& operator=(const StateStream&) = delete;

  // Updates all subgroups, those of a place in order. Later ops wait for new weights that the host sends.
  void run(const Updates&);
  const std::vector<UpdatePlace>& places() const { return schedule_.places; }
  // Whether some subgroups, here or on other ranks, may be updated on the host.
  bool uses_host() const { return uses_host_; }
  // Returns where a part of subgroup i lies in its tensors.
  ParamRange range_of(size_t i, const ParamPart& p) const { return env_->params->range_of(p, (*subgroups_)[i].range); }
  // Whether a slot passes through the device; the others are there.
  bool passes(int slot) const;
  // Makes later ops wait for the last subgroups to be written back. Call after run().
  void finish();

 private:
  struct DeviceBuffer {
    std::vector<ArenaTensor> slots;  // by slot; empty for those that are on the device
    ArenaTensor gradient, weights;   // if they are in host memory
    CopyTicket filled, emptied;
  };
  struct HostBuffer {
    ArenaTensor gradient, weights, param;  // those that are on the device
    CopyTicket filled, updated, emptied;
  };
  void allocate(Subgroup::Slots, int64_t elements, bool weights);
  // Returns the tensors of subgroup i where they live.
  UpdateTensors at_home(size_t i) const { return env_->params->update_tensors((*subgroups_)[i].range); }
  // Calls `use` with the ranges of a subgroup's tensors in which there are parameters: no weights are computed between.
  template <class Use>
  void for_each_run(size_t subgroup, const Use& use) const;
  // Calls `use` with the buffer and the tensor at home of each slot of subgroup i that passes through the device.
  template <class Use>
  void for_each_passing(const UpdateAction&, const Use&);
  void fetch(const UpdateAction&);
  void update_on_device(const UpdateAction&, const Updates&);
  void write_back(const UpdateAction&);
  void send_gradient(const UpdateAction&);
  void update_on_host(const UpdateAction&, const Updates&);
  void send_weights(const UpdateAction&);

  const ModelEnv* env_;
  const std::vector<Subgroup>* subgroups_;
  const EarlyGradients* early_;
  bool streams_;  // false: all state is on the device
  bool uses_device_, uses_host_;
  UpdateSchedule schedule_;
  std::vector<DeviceBuffer> device_;
  std::vector<HostBuffer> host_;
  ArenaTensor wide_, wide_on_host_;  // gradients that are kept in bf16, as f32
};

}  // namespace fp
