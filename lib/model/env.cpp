#include "model/env.h"

#include <utility>

namespace fp {

void ModelEnv::linear_backward_weight(const Tensor& dy, const Tensor& x, const LinearIds& l) const {
  const Write write = params->grad_write(l.first, l.last);
  const Tensor dw = params->grad(l.first, l.last);
  if (l.bias < 0) return ops->linear_backward_weight({dw, dy, x, write});
  const Write bias_write = params->grad_write(l.bias, l.last_bias);
  ops->linear_backward_weight_bias({dw, params->grad(l.bias, l.last_bias), dy, x, write, bias_write});
}

void ModelEnv::norm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n) const {
  const Write write = params->grad_write(n.gain);
  Tensor bias;
  if (n.bias >= 0) {
    params->grad_write(n.bias);
    bias = params->grad(n.bias);
  }
  ops->norm_backward_weight({params->grad(n.gain), bias, dy, x, stats, arch->norm, write});
}

void ModelEnv::drop(const Tensor& x, const MicroBatch& batch, const Dropout& d) const {
  if (!batch.training || d.p <= 0) return;
  for (const TokenRun& r : batch.runs) {
    const Tensor view = x.slice(r.row, r.samples * r.tokens).reshaped({r.samples, r.tokens, x.cols()});
    ops->dropout({view, view, batch.sample_ids.slice(r.sample, r.samples), r.first_token, d});
  }
}

ArenaTensor ModelEnv::widened(const Tensor& x) const {
  if (x.dtype == DType::f32) return {nullptr, x};
  ArenaTensor wide = alloc_f32(x.shape);
  ops->cast({wide, x});
  return wide;
}

void ModelEnv::gather(const Tensor& x, const MicroBatch& b) const {
  if (tokens.megatron) tensor->all_gather(x, own_rows(x, b));
}

ArenaTensor ModelEnv::whole_copy(const Tensor& own, const MicroBatch& b) const {
  ArenaTensor x = alloc({b.rows(), own.cols()});
  if (tokens.megatron)
    tensor->all_gather(x, own);
  else
    ops->copy({x, own});
  return x;
}

ArenaTensor ModelEnv::whole(ArenaTensor own, const MicroBatch& b) const {
  return tokens.megatron ? whole_copy(*own, b) : std::move(own);
}

ArenaTensor ModelEnv::reduce(ArenaTensor x, const MicroBatch& b) const {
  if (!tokens.megatron) {
    tensor->all_reduce(x);
    return x;
  }
  ArenaTensor own = alloc({b.local_rows(), x->cols()});
  tensor->reduce_scatter(own, x);
  return own;
}

}  // namespace fp
