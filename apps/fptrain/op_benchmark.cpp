#include "op_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fp {
namespace {

// Size of the copy that other ops are compared with.
constexpr int64_t kDeviceCopy = int64_t{1} << 30, kHostCopy = int64_t{1} << 27;  // bytes
constexpr int64_t kHostPart = int64_t{1} << 24;                                  // elements copied to and from the host

}  // namespace

OpSizes::OpSizes(const ModelSection& m, int64_t tokens_)
    : tokens(tokens_),
      hidden(m.hidden),
      heads(m.heads),
      kv_heads(m.kv_heads ? m.kv_heads : m.heads),
      head_dim(m.head_dim ? m.head_dim : m.hidden / m.heads),
      ffn(m.ffn ? m.ffn : 4 * m.hidden),
      vocab((m.vocab + m.pad_vocab_to - 1) / m.pad_vocab_to * m.pad_vocab_to),
      rotary(m.family != Family::gpt),
      biases(m.family == Family::gpt || m.family == Family::phi3small) {
  if (m.family == Family::llama || m.family == Family::phi3) activation.kind = Activation::swiglu;
  if (m.family == Family::phi3small) activation.kind = Activation::gegelu;
  norm = {.kind = biases ? Norm::layernorm : Norm::rmsnorm, .eps = m.norm_eps};
}

void OpBenchmark::add(const std::string& op, const std::string& shape, double amount, Bound bound, const Call& call) {
  rows.push_back({op, shape, timer_.seconds(call, repeats_), amount, bound});
}

void OpBenchmark::memory(const std::string& op, const std::vector<Tensor>& moved, const Call& call) {
  double bytes = 0;
  for (const Tensor& x : moved) bytes += static_cast<double>(x.bytes());
  add(op, moved.front().shape.str(), bytes, Bound::bytes, call);
}

void OpBenchmark::copies() {
  const int64_t n = (ops_.device_memory() ? kDeviceCopy : kHostCopy) / 4;
  const Tensor x = f32({n}), y = f32({n}), b = timer_.operand(DType::bf16, {n});
  memory("copy", {x, y}, [&] { ops_.copy(y, x); });
  memory("zero", {y}, [&] { ops_.zero(y); });
  memory("cast fp32 to bf16", {x, b}, [&] { ops_.cast(b, x); });
  memory("cast bf16 to fp32", {b, y}, [&] { ops_.cast(y, b); });
  const Tensor part = y.slice(0, kHostPart);
  std::vector<std::byte> host(part.bytes());
  memory("copy_in", {part}, [&] { ops_.copy_in(part, host.data()); });
  memory("copy_out", {part}, [&] { ops_.copy_out(host.data(), part); });
  timer_.drop();
}

void OpBenchmark::products(const OpSizes& s) {
  const std::vector<std::pair<int64_t, int64_t>> layers = {{s.layout().columns(), s.hidden},
                                                           {s.hidden, s.heads * s.head_dim},
                                                           {s.activation.inputs(s.ffn), s.hidden},
                                                           {s.hidden, s.ffn},
                                                           {s.vocab, s.hidden}};
  constexpr const char* names[] = {"linear", "linear_backward_input", "linear_backward_weight"};
  for (const auto& [n, k] : layers)
    for (const GemmKind kind : {GemmKind::forward, GemmKind::backward_input, GemmKind::backward_weight}) {
      const double flops = 2.0 * static_cast<double>(s.tokens) * static_cast<double>(n * k);
      const double seconds = time_gemm(ops_, {kind, s.tokens, n, k}, t_, repeats_);
      rows.push_back(
          {names[static_cast<int>(kind)], fmt::format("M={} N={} K={}", s.tokens, n, k), seconds, flops, Bound::flops});
    }
}

void OpBenchmark::fused_products(const OpSizes& s) {
  if (!s.biases) return;
  const int64_t inputs = s.activation.inputs(s.ffn);
  const Tensor x = operand({s.tokens, s.hidden}), u = operand({s.tokens, inputs}), y = operand(u.shape);
  const Tensor up = operand({inputs, s.hidden}), down = operand({s.hidden, inputs}), bias = operand({inputs});
  const Tensor d_up = f32(up.shape), d_bias = f32({inputs});
  const double flops = 2.0 * static_cast<double>(s.tokens) * static_cast<double>(inputs * s.hidden);
  const std::string shape = fmt::format("M={} N={} K={}", s.tokens, inputs, s.hidden);
  add("linear_backward_weight_bias", shape, flops, Bound::flops,
      [&] { ops_.linear_backward_weight_bias(d_up, d_bias, y, x, Write::set, Write::set); });
  if (s.activation.kind == Activation::gelu) {
    add("linear_gelu", shape, flops, Bound::flops, [&] { ops_.linear_gelu(y, u, x, up, bias); });
    add("linear_backward_input_gelu", fmt::format("M={} N={} K={}", s.tokens, s.hidden, inputs), flops, Bound::flops,
        [&] { ops_.linear_backward_input_gelu(y, x, down, u); });
  }
  timer_.drop();
}

void OpBenchmark::attention(const OpSizes& s, int64_t length, const std::string& title) {
  const int64_t batch = std::max<int64_t>(1, s.tokens / length);
  const Shape q_shape = {batch, length, s.heads, s.head_dim}, k_shape = {batch, length, s.kv_heads, s.head_dim};
  const Tensor q = operand(q_shape), k = operand(k_shape), v = operand(k_shape), o = operand(q_shape),
               d_o = operand(q_shape);
  const Tensor dq = operand(q_shape), dk = operand(k_shape), dv = operand(k_shape);
  const Tensor lse = f32({batch, s.heads, length});
  AttentionSpec spec;
  spec.scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  // FLOPs of the visible (query, key) pairs: two products forward and five backward.
  const double pairs = static_cast<double>(batch * s.heads) * 0.5 * static_cast<double>(length * (length + 1));
  const double flops = 4.0 * pairs * static_cast<double>(s.head_dim);
  const std::string shape = fmt::format("B={} T={} H={} K={} d={}", batch, length, s.heads, s.kv_heads, s.head_dim);
  ops_.reserve_scratch(ops_.attention_scratch(q, k, {}, spec, false));
  add("attention" + title, shape, flops, Bound::flops, [&] { ops_.attention(o, lse, q, k, v, {}, {}, spec); });
  // Only now, since a device may support the forward pass alone.
  ops_.reserve_scratch(ops_.attention_scratch(q, k, {}, spec, true));
  add("attention_backward" + title, shape, 2.5 * flops, Bound::flops,
      [&] { ops_.attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, {}, {}, spec); });
  timer_.drop();
}

}  // namespace fp
