// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019). Its states are the first and second moments of
// the gradient.
#pragma once

#include "optim/optimizer.h"

namespace fp {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const OptimizerSection& spec) : spec_(spec) {}
  void update(Ops&, const UpdateTensors&, std::span<const ParamRange>, const UpdateStep&,
              const UpdateChecksums&) const override;

 private:
  OptimizerSection spec_;
};

}  // namespace fp
