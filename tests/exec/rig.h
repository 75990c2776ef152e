// A model with its memory and executor, ready to train.
#pragma once

#include <memory>

#include "exec/executor.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

namespace fp::test {

struct Rig {
  std::unique_ptr<Ops> ops;
  Arena arena;
  Groups groups = make_self_groups();
  Model model;
  Executor executor;

  Rig(std::unique_ptr<Ops> device, const ModelSection& section, DType compute, Recompute recompute = Recompute::none,
      const ExecutorOptions& options = {}, int64_t positions = 32, size_t bytes = size_t{64} << 20)
      : ops(std::move(device)),
        arena(ops->allocate(bytes, false), bytes),
        model(section, {compute, true, DType::f32, 0, false, recompute, 11, positions}, *ops, arena, groups),
        executor(model, options) {
    model.params().initialize(*ops, 5);
  }

  std::vector<float> host(const Tensor& t) {
    std::vector<float> v(static_cast<size_t>(t.elements()));
    ops->copy_out({v.data(), t});
    return v;
  }
};

}  // namespace fp::test
