// The token-local ops, which never mix tokens: embedding, norm, activation, add, dropout, split_qkv.
#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dropout.h"

namespace fp {
namespace {

bool is_bf16(const Tensor& x) { return x.dtype == DType::bf16; }

template <class T>
T* ptr_or_null(const Tensor& x) {
  return x ? x.ptr<T>() : nullptr;
}

cpu::ActivationArgs activation_args(const Tensor& y, const Tensor& x, const Tensor& dy, const Tensor& out,
                                    const ActivationSpec& spec) {
  return {.bf16 = is_bf16(x),
          .kind = static_cast<int>(spec.kind),
          .rows = out.rows(),
          .cols = out.cols(),
          .limit = static_cast<float>(spec.limit),
          .y = y.data,
          .x = x.data,
          .dy = dy.data};
}

cpu::QkvArgs qkv_args(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout& layout,
                      const Rope& rope, const Tensor& positions, bool backward) {
  const bool several = layout.kv_heads > 1, grouped = layout.heads > layout.kv_heads;
  return {.bf16 = is_bf16(qkv),
          .backward = backward,
          .rows = qkv.rows(),
          .columns = layout.columns(),
          .heads = layout.heads,
          .kv_heads = layout.kv_heads,
          .head_dim = layout.head_dim,
          .group_step = several ? layout.q_column(layout.heads / layout.kv_heads) - layout.q_column(0) : 0,
          .head_step = grouped ? layout.q_column(1) - layout.q_column(0) : 0,
          .k_first = layout.k_column(0),
          .v_first = layout.v_column(0),
          .kv_step = several ? layout.k_column(1) - layout.k_column(0) : 0,
          .q = q.data,
          .k = k.data,
          .v = v.data,
          .qkv = qkv.data,
          .cos = ptr_or_null<float>(rope.cos),
          .sin = ptr_or_null<float>(rope.sin),
          .positions = ptr_or_null<int32_t>(positions)};
}

}  // namespace

void CpuOps::embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                       const Tensor& positions_table, double scale) {
  checks::embedding(y, ids, table, positions, positions_table);
  k_.embedding({.bf16 = is_bf16(y),
                .rows = y.rows(),
                .cols = y.cols(),
                .y = y.data,
                .ids = ids.ptr<int32_t>(),
                .table = table.data,
                .positions = ptr_or_null<int32_t>(positions),
                .positions_table = positions_table.data,
                .scale = static_cast<float>(scale)});
}

void CpuOps::embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double scale) {
  checks::embedding_backward(dtable, dy, ids);
  k_.embedding_backward({.bf16 = is_bf16(dy),
                         .rows = dy.rows(),
                         .cols = dy.cols(),
                         .dtable = dtable.ptr<float>(),
                         .dy = dy.data,
                         .ids = ids.ptr<int32_t>(),
                         .scale = static_cast<float>(scale)});
}

void CpuOps::norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
                  const Tensor& gain, const Tensor& bias, const NormSpec& spec) {
  checks::norm(y, sum, stats, x, residual, gain, bias, spec);
  k_.norm({.bf16 = is_bf16(x),
           .layernorm = spec.kind == Norm::layernorm,
           .rows = x.rows(),
           .cols = x.cols(),
           .eps = spec.eps,
           .y = y.data,
           .sum = sum.data,
           .stats = stats.ptr<float>(),
           .x = x.data,
           .residual = residual.data,
           .gain = gain.data,
           .bias = bias.data});
}

void CpuOps::norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                 const Tensor& gain, const NormSpec& spec, Write write) {
  checks::norm_backward_input(dx, dy, x, stats, gain);
  k_.norm_backward_input({.bf16 = is_bf16(x),
                          .layernorm = spec.kind == Norm::layernorm,
                          .add = write == Write::add,
                          .rows = x.rows(),
                          .cols = x.cols(),
                          .dx = dx.data,
                          .dy = dy.data,
                          .x = x.data,
                          .gain = gain.data,
                          .stats = stats.ptr<float>()});
}

void CpuOps::norm_backward_weight(const Tensor& dgain, const Tensor& dbias, const Tensor& dy, const Tensor& x,
                                  const Tensor& stats, const NormSpec& spec, Write write) {
  checks::norm_backward_weight(dgain, dbias, dy, x, stats);
  const auto partial = scratch_.acquire(static_cast<size_t>(2 * cpu::row_chunks(x.rows()) * x.cols()) * sizeof(float));
  k_.norm_backward_weight({.bf16 = is_bf16(x),
                           .layernorm = spec.kind == Norm::layernorm,
                           .add = write == Write::add,
                           .rows = x.rows(),
                           .cols = x.cols(),
                           .dgain = dgain.ptr<float>(),
                           .dbias = ptr_or_null<float>(dbias),
                           .dy = dy.data,
                           .x = x.data,
                           .stats = stats.ptr<float>(),
                           .partial = partial.as<float>()});
}

void CpuOps::activation(const Tensor& y, const Tensor& x, const ActivationSpec& spec) {
  checks::activation(y, x, spec);
  k_.activation(activation_args(y, x, {}, y, spec));
}

void CpuOps::activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec& spec) {
  checks::activation_backward(dx, dy, x, spec);
  k_.activation_backward(activation_args(dx, x, dy, dy, spec));
}

void CpuOps::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  checks::add(y, a, b);
  k_.add({.bf16 = is_bf16(y), .count = y.elements(), .y = y.data, .a = a.data, .b = b.data});
}

void CpuOps::dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t first_token,
                     const Dropout& spec) {
  checks::dropout(y, x, sample_ids, spec);
  if (spec.p == 0.0) {
    if (y.data != x.data) copy(y, x);
    return;
  }
  k_.dropout({.bf16 = is_bf16(x),
              .samples = x.shape[0],
              .tokens = x.shape[1],
              .cols = x.shape[2],
              .first_token = first_token,
              .y = y.data,
              .x = x.data,
              .sample_ids = sample_ids.ptr<int32_t>(),
              .dropout = cpu::dropout_args(spec)});
}

void CpuOps::split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout& layout,
                       const Rope& rope, const Tensor& positions) {
  checks::split_qkv(q, k, v, qkv, layout, rope, positions);
  k_.qkv(qkv_args(q, k, v, qkv, layout, rope, positions, false));
}

void CpuOps::split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                const HeadLayout& layout, const Rope& rope, const Tensor& positions) {
  checks::split_qkv_backward(dqkv, dq, dk, dv, layout, rope, positions);
  k_.qkv(qkv_args(dq, dk, dv, dqkv, layout, rope, positions, true));
}

}  // namespace fp
