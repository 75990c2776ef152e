// A model with its memory and executor, ready to train.
#pragma once

#include <memory>

#include "exec/executor.h"
#include "model/host_view.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::test {

struct Rig {
  std::unique_ptr<Ops> ops;
  Arena arena, host_arena;
  Groups groups = make_self_groups();
  Model model;
  Executor executor;

  Rig(std::unique_ptr<Ops> device, const ModelSection& section, DType compute, Recompute recompute = Recompute::none,
      const ExecutorOptions& options = {}, int64_t positions = 32, size_t bytes = size_t{64} << 20,
      bool offload = false, bool offload_weights = false)
      : ops(std::move(device)),
        arena(ops->allocate(bytes, false), bytes),
        host_arena(ops->allocate_host(bytes, false), bytes, Residence::host),
        model(section, options_of(compute, recompute, positions, offload, offload_weights), *ops, arena, groups,
              &host_arena),
        executor(model, options) {
    model.params().initialize(*ops, 5);
  }

  static ModelOptions options_of(DType compute, Recompute recompute, int64_t positions, bool offload,
                                 bool offload_weights) {
    ModelOptions o{compute, true, DType::f32, 0, false, recompute, 11, positions};
    o.offload_optimizer = o.offload_activations = offload;
    o.offload_weights = offload_weights;
    o.subgroup_elements = 1000;
    return o;
  }

  std::vector<float> host(const Tensor& t) {
    std::vector<float> v(static_cast<size_t>(t.elements()));
    read_tensor(*ops, t, v.data());
    return v;
  }
};

}  // namespace fp::test
