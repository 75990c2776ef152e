#include "exec/gradient_outlier.h"

#include "base/error.h"

namespace fp {

void check(const GradientOutlier& outlier, const ParamTable& table) {
  const ParamId id = table.find(outlier.parameter);
  if (id < 0) throw ConfigError(fmt::format("FPTRAIN_FAULT: the model has no parameter {}", outlier.parameter));
  const Param& p = table[id];
  if (p.shape.rank() != 2 || (p.partition.dim == 1 && table.tp() > 1) || outlier.channel >= p.shape[1])
    throw ConfigError(fmt::format(
        "FPTRAIN_FAULT: no channel {} of {} {}; legal: one of the second dimension of a parameter that has two and "
        "whose second one is not divided among tensor-parallel ranks",
        outlier.channel, p.name, p.shape.str()));
}

void apply(const GradientOutlier& outlier, const ModelEnv& env, const ParamUnit& unit, const Tensor& gradients) {
  const ParamTable& table = env.params->table();
  const ParamId id = table.find(outlier.parameter);
  if (id < unit.first || id > unit.last) return;
  const Param& p = table[id];
  const Tensor of_param = gradients.slice(p.offset - unit.offset, p.local_elements()).reshaped(p.local);
  const ArenaTensor channel = env.arena->alloc(gradients.dtype, {p.local[0], 1}, MemoryClass::gradients);
  env.ops->copy_columns({channel, 0, of_param, outlier.channel, 1, Write::set});
  env.ops->scaled_add({.y = channel, .a = channel, .a_scale = outlier.factor, .b_scale = 0});
  env.ops->copy_columns({of_param, outlier.channel, channel, 0, 1, Write::set});
}

}  // namespace fp
