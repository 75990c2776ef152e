// Optimizers over flat buffers. An optimizer declares the states that it keeps for each parameter and updates a unit of
// parameters, or this rank's shard of it. Weight decay applies to matrices only; gradients are clipped by their norm.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/index_range.h"
#include "config/run_spec.h"
#include "ops/ops.h"

namespace fp {

// A value that training keeps for each element of a parameter, and the memory that it is kept in. It is addressed by
// its index in a list of slots; slot 0 is always the parameter itself in fp32 (the master weight).
struct StateSlot {
  // The parameters that have it: all, or those with or without Param::matrix.
  enum class Scope : uint8_t { all, matrices, others };

  std::string name;          // of its dataset in checkpoints: "param", "exp_avg"
  DType dtype = DType::f32;  // in memory and in checkpoints
  Residence residence = Residence::device;
  Scope scope = Scope::all;
  // True for the slot of the sent weights: the bf16 weights that ranks compute with where updates send differences
  // (ShardFormats::differences). It follows the optimizer's slots and takes no memory of its own.
  bool is_weights = false;
  // For the errors of quantized sums of gradients (ShardFormats::feedback): the index of the node, or of the data rank,
  // that keeps them; -1 for all other slots. Slots of errors are the last ones.
  int errors_of = -1;

  bool operator==(const StateSlot&) const = default;
};

constexpr int kParamSlot = 0;
constexpr const char* kParamState = "param";
constexpr const char* kSentState = "sent_param";        // of the slot with is_weights
constexpr const char* kErrorState = "gradient_error.";  // prefix of those with errors_of, whose value follows

// Where a parameter lies in the tensors of an update.
struct ParamRange {
  IndexRange segment;
  bool decay = false;
  bool matrix = false;
  int64_t state_offset = segment.first;  // in the buffers of the states that the segment has
};

// The tensors of an update: f32 [n] each, but for the weights and for states that not all parameters have.
struct UpdateTensors {
  Tensor param;
  std::vector<Tensor> states;  // slots 1, 2, ...
  Tensor gradient;
  Tensor weights;  // bf16 copy of param [n], or empty
};

struct UpdateStep {
  double lr = 0;
  int64_t step = 1;  // from 1
  double grad_scale = 1;
};

// Destinations of checksums that an update computes on the way; empty ones are left out.
struct UpdateChecksums {
  // i32 [ranges, n, 2]: the bit sums (Ops::bit_sums) of each range after the update, of every slot that the parameter
  // has and then of the weights. Those of ranges that the update leaves unfinished (Muon's matrices) are left out.
  Tensor bits;
  Tensor gradient;  // f32 [ranges, 2]: rows that add up to the gradient sums of all ranges
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates param, states and weights of the ranges in place from the gradient, by ops on the device. Muon replaces the
  // gradient of matrices (optim/muon.h) and leaves their param and weights to MatrixUpdate.
  virtual void update(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
                      const UpdateChecksums& = {}) const = 0;
  // The same on tensors in host memory, by the host's cores (Ops::start_on_host): starts after the copy `after`, and
  // returns the last op. Only for optimizers that update each element by itself.
  virtual CopyTicket update_on_host(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
                                    const CopyTicket& after, const UpdateChecksums& = {}) const = 0;
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSection&);

// Returns the slots of the optimizer, the parameter's own first.
std::vector<StateSlot> state_slots(OptimizerKind);
// Whether update_on_host() is possible.
bool updates_on_host(OptimizerKind);
// Moves slots to host memory: all of them, but for the parameter's own if training computes with it and the weights
// stay on the device.
void offload(std::vector<StateSlot>&, DType compute, bool weights = false);
// Return the bytes for each parameter that all slots of an optimizer take, which checkpoints save, and those that
// offload() moves: on average over a model of whose parameters the fraction `matrices` has Param::matrix.
double saved_bytes(OptimizerKind, double matrices);
double offloaded_bytes(OptimizerKind, double matrices, DType compute, bool weights = false);

// Returns the factor on the gradients: min(1, clip / (norm + 1e-6)); 1 when clip is 0.
double clip_scale(double norm, double clip);

}  // namespace fp
