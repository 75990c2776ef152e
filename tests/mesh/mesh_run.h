// Trains a small model on a mesh of threads and collects the results of all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/backends.h"
#include "exec/executor.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::test {

// Returns AdamW whose eps is far above the rounding noise of gradients (1e-9 to 1e-8 here), which would otherwise move
// weights by whole steps, and near most gradients, so that updates depend on their scale.
OptimizerSection steady_adamw();

struct MeshPlan {
  int tp = 1, sp = 1, dp = 1, zero = 0;
  bool megatron = false;
  Recompute recompute = Recompute::none;
  DType compute = DType::f32, gradients = DType::f32;
  int64_t length = 12, micro_batches = 2, samples = 4;  // per step; micro-batches per data-parallel rank
  int steps = 20;
  double lr = 1e-3;
  OptimizerSection optimizer = steady_adamw();  // but for its lr
  bool documents = false;
  ExecutorOptions executor = {};
  PipelineSection pipeline = {};
  int64_t chunk = 0;     // tokens of a sequence; 0: all
  int64_t mlp_tile = 0;  // rows; 0: all
  int64_t tensor_pieces = 1;
  bool overlap = true;
  bool offload = false;              // of the optimizer's state
  bool offload_inputs = false;       // of recomputed layers
  bool offload_weights = false;      // and gradients; with `offload`
  double device_share = 1;           // of its updates
  bool early_gradients = false;      // those of the others are sent during the backward pass
  int64_t subgroup_elements = 4096;  // elements of it that pass through the device at a time
  CommunicationSection communication = {};
  int ranks_per_node = 0;    // 0: all ranks are on one node
  int skip_every = 0;        // steps whose update is left out, as if their gradients were not finite; 0: none
  bool poison = false;       // fill all memory of the arenas, and what is released, with NaN
  bool states = false;       // collect the optimizer's states too
  bool weights = false;      // collect the weights that compute uses too, unless they are the parameters
  bool own_weights = false;  // of them, only this rank's shard, also where all are kept whole
  CopySettings copies = {};
  std::function<std::unique_ptr<World>(World&)> over =
      {};  // the world over that of the threads; empty: that one itself
  std::function<void(Executor&, int rank, int step)> before_step = {};  // on each rank
  std::function<void(Executor&, int rank)> after_gradients = {};

  int ranks() const { return tp * sp * dp * static_cast<int>(pipeline.ranks); }
  std::string text() const;
};

struct MeshResult {
  std::vector<double> losses, norms;                 // by step
  double reach = 0;                                  // how far AdamW can move a weight in all steps, about
  std::map<std::string, std::vector<float>> params;  // logical tensors after the last step
  std::map<std::string, std::vector<float>> states;  // by "NAME/SLOT"
  std::map<int, std::vector<std::byte>> weights;     // by rank: its parameters', or its shards' under ZeRO 3
  std::vector<TrafficTable> traffic;                 // of the last step, by rank
  std::vector<size_t> peaks;                         // of the arena, by rank
  std::vector<BytesByClass> classes;                 // at the peak, by rank
  std::vector<size_t> host_peaks;                    // of the arena in host memory, by rank
  bool operator==(const MeshResult& o) const {
    return losses == o.losses && norms == o.norms && params == o.params && states == o.states && weights == o.weights;
  }
};

// Returns settings that delay these lanes before each of their copies and ops, by up to 0.3 ms.
CopySettings delayed(std::vector<CopyLane>);

// Returns the plan with two pipeline ranks under a schedule.
MeshPlan piped(PipelineSchedule, MeshPlan);

// Returns a model of this family with enough heads to split over the ranks.
ModelSection shared_model(const std::string& family);
// The same with this number of layers.
ModelSection deep_model(const std::string& family, int64_t layers);

// The plan with delayed copies, and NaN in all memory that nobody may read.
MeshPlan hampered(MeshPlan);

// Returns every legal combination of axes but the pipeline's on up to 8 ranks.
std::vector<MeshPlan> all_plans();

MeshResult run_mesh(const ModelSection&, const MeshPlan&);
// The same on counting ops, worlds and arenas: returns traffic and peaks only.
MeshResult count_mesh(const ModelSection&, const MeshPlan&);

// Checks that losses and parameters of the plan equal those of `one` within 1e-5 (docs/architecture.md, section 4), and
// that a second run is bitwise equal.
void check_trains_like(const ModelSection&, const MeshPlan&, const MeshResult& one);

// Returns the largest difference of a weight, relative to the largest value of its tensor or to how far updates can
// move it: biases of keys, on which the loss hardly depends, stay near their initial zeros.
double worst_difference(const MeshResult& a, const MeshResult& b);

}  // namespace fp::test
