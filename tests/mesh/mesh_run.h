// A training run of a small model on a mesh of threads: what it leaves, put together from all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/backends.h"
#include "exec/executor.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::testing {

struct MeshPlan {
  int tp = 1, sp = 1, dp = 1, zero = 0;
  bool megatron = false;
  Recompute recompute = Recompute::none;
  DType compute = DType::f32, gradients = DType::f32;
  int64_t length = 12, micro_batches = 2, samples = 4;  // of a step; micro-batches on each data-parallel rank
  int steps = 20;
  double lr = 1e-2, eps = 1e-8;
  bool documents = false;
  ExecutorOptions executor = {};
  PipelineSection pipeline = {};
  std::function<void(Executor&, int rank, int step)> before_step = {};  // on each rank
  std::function<void(Executor&, int rank)> after_gradients = {};

  int ranks() const { return tp * sp * dp * static_cast<int>(pipeline.ranks); }
  std::string text() const;
};

struct MeshResult {
  std::vector<double> losses, norms;                 // of each step
  std::map<std::string, std::vector<float>> params;  // logical tensors after the last step
  std::vector<TrafficTable> traffic;                 // of each rank's last step
  std::vector<size_t> peaks;                         // of each rank's arena
  std::vector<BytesByClass> classes;                 // at that moment
  bool operator==(const MeshResult& o) const { return losses == o.losses && norms == o.norms && params == o.params; }
};

// A llama, gpt or phi3 with enough heads to share.
ModelSection shared_model(const std::string& family);

MeshResult run_mesh(const ModelSection&, const MeshPlan&);
// The same on counting ops, worlds and arenas: traffic and peaks alone.
MeshResult count_mesh(const ModelSection&, const MeshPlan&);

// Losses and parameters of the plan are those of `one`, to 1e-5 (docs/architecture.md, section 4), and it repeats bit
// for bit.
void check_trains_like(const ModelSection&, const MeshPlan&, const MeshResult& one);

// Largest difference relative to the largest value of the same tensor. The biases of keys are left out: no loss
// depends on them.
double worst_difference(const MeshResult& a, const MeshResult& b);

}  // namespace fp::testing
