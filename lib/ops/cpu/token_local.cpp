// The token-local ops, which never mix tokens: embedding, norm, activation, add, accumulate, scaled_add, dropout,
// split_qkv, rope.
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

void CpuOps::run(const calls::Embedding& call) {
  k_.embedding({.bf16 = is_bf16(call.y),
                .rows = call.y.rows(),
                .cols = call.y.cols(),
                .y = call.y.data,
                .ids = call.ids.ptr<int32_t>(),
                .table = call.table.data,
                .positions = ptr_or_null<int32_t>(call.positions),
                .positions_table = call.positions_table.data,
                .scale = static_cast<float>(call.scale)});
}

void CpuOps::run(const calls::EmbeddingBackward& call) {
  k_.embedding_backward({.bf16 = is_bf16(call.dy),
                         .rows = call.dy.rows(),
                         .cols = call.dy.cols(),
                         .dtable = call.dtable.ptr<float>(),
                         .dy = call.dy.data,
                         .ids = call.ids.ptr<int32_t>(),
                         .scale = static_cast<float>(call.scale)});
}

void CpuOps::run(const calls::Norm& call) {
  k_.norm({.bf16 = is_bf16(call.x),
           .layernorm = call.spec.kind == Norm::layernorm,
           .rows = call.x.rows(),
           .cols = call.x.cols(),
           .eps = call.spec.eps,
           .y = call.y.data,
           .sum = call.sum.data,
           .stats = call.stats.ptr<float>(),
           .x = call.x.data,
           .residual = call.residual.data,
           .gain = call.gain.data,
           .bias = call.bias.data});
}

void CpuOps::run(const calls::NormBackwardInput& call) {
  k_.norm_backward_input({.bf16 = is_bf16(call.x),
                          .layernorm = call.spec.kind == Norm::layernorm,
                          .add = call.write == Write::add,
                          .rows = call.x.rows(),
                          .cols = call.x.cols(),
                          .dx = call.dx.data,
                          .dy = call.dy.data,
                          .x = call.x.data,
                          .gain = call.gain.data,
                          .stats = call.stats.ptr<float>()});
}

size_t CpuOps::scratch_of(const calls::NormBackwardWeight& call) const {
  return static_cast<size_t>(2 * cpu::row_chunks(call.x.rows()) * call.x.cols()) * sizeof(float);
}

void CpuOps::run(const calls::NormBackwardWeight& call) {
  const auto partial = scratch_.acquire(scratch_of(call));
  k_.norm_backward_weight({.bf16 = is_bf16(call.x),
                           .layernorm = call.spec.kind == Norm::layernorm,
                           .add = call.write == Write::add,
                           .rows = call.x.rows(),
                           .cols = call.x.cols(),
                           .dgain = call.dgain.ptr<float>(),
                           .dbias = ptr_or_null<float>(call.dbias),
                           .dy = call.dy.data,
                           .x = call.x.data,
                           .stats = call.stats.ptr<float>(),
                           .partial = partial.as<float>()});
}

void CpuOps::run(const calls::Activation& call) {
  k_.activation(activation_args(call.y, call.x, {}, call.y, call.spec));
}

void CpuOps::run(const calls::ActivationBackward& call) {
  k_.activation_backward(activation_args(call.dx, call.x, call.dy, call.dy, call.spec));
}

void CpuOps::run(const calls::Add& call) {
  k_.add({.bf16 = is_bf16(call.y),
          .b_bf16 = is_bf16(call.b),
          .count = call.y.elements(),
          .y = call.y.data,
          .a = call.a.data,
          .b = call.b.data});
}

void CpuOps::run(const calls::Accumulate& call) {
  k_.add({.bf16 = is_bf16(call.dst),
          .b_bf16 = is_bf16(call.src),
          .count = call.dst.elements(),
          .y = call.dst.data,
          .a = call.dst.data,
          .b = call.src.data});
}

void CpuOps::run(const calls::ScaledAdd& call) {
  k_.scaled_add({.y_bf16 = is_bf16(call.y),
                 .bf16 = is_bf16(call.a),
                 .count = call.y.elements(),
                 .y = call.y.data,
                 .a = call.a.data,
                 .b = call.b.data,
                 .a_scale = static_cast<float>(call.a_scale),
                 .b_scale = static_cast<float>(call.b_scale)});
}

void CpuOps::run(const calls::Dropout& call) {
  if (call.stream.p == 0.0) {
    if (call.y.data != call.x.data) run(calls::Copy{call.y, call.x});
    return;
  }
  k_.dropout({.bf16 = is_bf16(call.x),
              .samples = call.x.shape[0],
              .tokens = call.x.shape[1],
              .cols = call.x.shape[2],
              .first_token = call.first_token,
              .y = call.y.data,
              .x = call.x.data,
              .sample_ids = call.sample_ids.ptr<int32_t>(),
              .dropout = cpu::dropout_args(call.stream)});
}

void CpuOps::run(const calls::SplitQkv& call) {
  k_.qkv(qkv_args(call.q, call.k, call.v, call.qkv, call.layout, call.rope, call.positions, false));
}

void CpuOps::run(const calls::SplitQkvBackward& call) {
  k_.qkv(qkv_args(call.dq, call.dk, call.dv, call.dqkv, call.layout, call.rope, call.positions, true));
}

void CpuOps::run(const calls::Rope& call) {
  k_.rope({.bf16 = is_bf16(call.x),
           .back = call.back,
           .tokens = call.x.shape[0],
           .heads = call.x.shape[1],
           .head_dim = call.x.cols(),
           .y = call.y.data,
           .x = call.x.data,
           .cos = call.rope.cos.ptr<float>(),
           .sin = call.rope.sin.ptr<float>(),
           .positions = call.positions.ptr<int32_t>()});
}

}  // namespace fp
