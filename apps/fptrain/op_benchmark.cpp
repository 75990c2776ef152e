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
      rotary(!m.traits().learned_positions),
      biases(m.traits().bias) {
  activation.kind = activation_of(m.traits().mlp);
  norm = {.kind = norm_of(m.traits().norm), .eps = m.norm_eps};
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
  memory("copy", {x, y}, [&] { ops_.copy({y, x}); });
  memory("zero", {y}, [&] { ops_.zero({y}); });
  memory("cast fp32 to bf16", {x, b}, [&] { ops_.cast({b, x}); });
  memory("accumulate fp32 in bf16", {b, b, x}, [&] { ops_.accumulate({b, x}); });
  memory("scaled_add fp32", {y, y, x}, [&] { ops_.scaled_add({y, y, x, 0.5, 0.5}); });
  memory("cast bf16 to fp32", {b, y}, [&] { ops_.cast({y, b}); });
  const Tensor part = y.slice(0, kHostPart);
  std::vector<std::byte> host(part.bytes());
  memory("copy_in", {part}, [&] { ops_.copy_in({part, host.data()}); });
  memory("copy_out", {part}, [&] { ops_.copy_out({host.data(), part}); });
  timer_.drop();
}

void OpBenchmark::products(const OpSizes& s) {
  const std::vector<std::pair<int64_t, int64_t>> layers = {{s.layout().columns(), s.hidden},
                                                           {s.hidden, s.heads * s.head_dim},
                                                           {s.activation.inputs(s.ffn), s.hidden},
                                                           {s.hidden, s.ffn},
                                                           {s.vocab, s.hidden}};
  constexpr const char* names[] = {FP_PRODUCTS(FP_OP_NAME)};
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
  add("linear_backward_weight_bias", shape, flops, Bound::flops, [&] {
    ops_.linear_backward_weight_bias({d_up, d_bias, y, x, Write::set, Write::set});
  });
  if (s.activation.kind == Activation::gelu) {
    add("linear_gelu", shape, flops, Bound::flops, [&] { ops_.linear_gelu({y, u, x, up, bias}); });
    add("linear_backward_input_gelu", fmt::format("M={} N={} K={}", s.tokens, s.hidden, inputs), flops, Bound::flops,
        [&] {
          ops_.linear_backward_input_gelu({y, x, down, u});
        });
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
  const calls::Attention forward{.o = o, .lse = lse, .q = q, .k = k, .v = v, .spec = spec};
  ops_.reserve_scratch(ops_.scratch_of(forward));
  add("attention" + title, shape, flops, Bound::flops, [&] { ops_.attention(forward); });
  // Only now, since a device may support the forward pass alone.
  const calls::AttentionBackward backward{
      .dq = dq, .dk = dk, .dv = dv, .d_o = d_o, .q = q, .k = k, .v = v, .o = o, .lse = lse, .spec = spec};
  ops_.reserve_scratch(ops_.scratch_of(backward));
  add("attention_backward" + title, shape, 2.5 * flops, Bound::flops, [&] { ops_.attention_backward(backward); });
  timer_.drop();
}

void OpBenchmark::norms(const OpSizes& s) {
  const Shape rows_by_width = {s.tokens, s.hidden};
  const Tensor x = operand(rows_by_width), y = operand(rows_by_width), r = operand(rows_by_width),
               sum = operand(rows_by_width);
  const Tensor gain = operand({s.hidden}), bias = s.biases ? gain : Tensor();
  const Tensor stats = f32({s.tokens, 2}), d_gain = f32({s.hidden}), d_bias = s.biases ? f32({s.hidden}) : Tensor();
  memory("norm", {x, y, stats}, [&] { ops_.norm({y, {}, stats, x, {}, gain, bias, s.norm}); });
  memory("norm + residual", {x, y, r, sum, stats}, [&] { ops_.norm({y, sum, stats, x, r, gain, bias, s.norm}); });
  memory("norm_backward_input set", {x, y, r, stats}, [&] {
    ops_.norm_backward_input({r, y, x, stats, gain, s.norm, Write::set});
  });
  memory("norm_backward_input add", {x, y, r, r, stats}, [&] {
    ops_.norm_backward_input({r, y, x, stats, gain, s.norm, Write::add});
  });
  memory("norm_backward_weight", {x, y, stats}, [&] {
    ops_.norm_backward_weight({d_gain, d_bias, y, x, stats, s.norm, Write::set});
  });
  timer_.drop();
}

void OpBenchmark::token_local(const OpSizes& s) {
  Tensor x = operand({s.tokens, s.hidden}), y = operand(x.shape), r = operand(x.shape);
  const Tensor first = ids({s.tokens}, 1), sample = ids({1, 2}, 1);
  memory("add", {x, y, r}, [&] { ops_.add({x, y, r}); });
  const Tensor in = x.reshaped({1, s.tokens, s.hidden}), out = y.reshaped(in.shape);
  memory("dropout", {in, out}, [&] { ops_.dropout({out, in, sample, 0, {.p = 0.1}}); });
  memory("find_nonfinite", {x, first}, [&] { ops_.find_nonfinite({first, x}); });
  timer_.drop();

  constexpr const char* names[] = {" gelu", " swiglu", " gegelu"};
  const std::string kind = names[static_cast<int>(s.activation.kind)];
  x = operand({s.tokens, s.activation.inputs(s.ffn)}), y = operand({s.tokens, s.ffn}), r = operand(x.shape);
  const Tensor d_bias = f32({s.ffn});
  memory("activation" + kind, {x, y}, [&] { ops_.activation({y, x, s.activation}); });
  memory("activation_backward" + kind, {x, y, r}, [&] { ops_.activation_backward({r, y, x, s.activation}); });
  memory("bias_backward", {y}, [&] { ops_.bias_backward({d_bias, y, Write::set}); });
  timer_.drop();
}

void OpBenchmark::embeddings(const OpSizes& s) {
  const Tensor tokens = ids({s.tokens}, s.vocab), y = operand({s.tokens, s.hidden});
  const Tensor table = operand({s.vocab, s.hidden}), d_table = f32(table.shape);
  // Each token reads one row; the gradient reads and writes one in fp32.
  memory("embedding", {y, y, tokens}, [&] { ops_.embedding({y, tokens, table, {}, {}, 1.0}); });
  const double bytes = static_cast<double>(y.bytes() + tokens.bytes()) + 8.0 * static_cast<double>(y.elements());
  add("embedding_backward", y.shape.str(), bytes, Bound::bytes, [&] {
    ops_.embedding_backward({d_table, y, tokens, 1.0});
  });
  timer_.drop();
}

void OpBenchmark::heads(const OpSizes& s) {
  const HeadLayout layout = s.layout();
  const Tensor q = operand({s.tokens, s.heads, s.head_dim}), k = operand({s.tokens, s.kv_heads, s.head_dim}),
               v = operand(k.shape), qkv = operand({s.tokens, layout.columns()});
  constexpr int64_t kPositions = 1024;
  const Tensor positions = ids({s.tokens}, kPositions);
  const Rope rope = {f32({kPositions, s.head_dim / 2}), f32({kPositions, s.head_dim / 2})};
  memory("split_qkv", {qkv, qkv}, [&] { ops_.split_qkv({q, k, v, qkv, layout, {}, {}}); });
  memory("split_qkv + rope", {qkv, qkv}, [&] { ops_.split_qkv({q, k, v, qkv, layout, rope, positions}); });
  memory("split_qkv_backward", {qkv, qkv}, [&] { ops_.split_qkv_backward({qkv, q, k, v, layout, {}, {}}); });
  memory("split_qkv_backward + rope", {qkv, qkv}, [&] {
    ops_.split_qkv_backward({qkv, q, k, v, layout, rope, positions});
  });
  memory("rope", {q, q}, [&] { ops_.rope({q, q, rope, positions}); });
  // The layout with heads first, which all-to-all between ranks needs.
  const Tensor packed = operand({s.heads, s.tokens, s.head_dim});
  constexpr int order[] = {1, 0, 2};
  memory("permute", {q, packed}, [&] { ops_.permute({packed, q, order}); });
  const Tensor queries = packed.reshaped({s.tokens, s.heads * s.head_dim});
  memory("copy_columns set", {q, q}, [&] { ops_.copy_columns({queries, 0, qkv, 0, queries.cols(), Write::set}); });
  memory("copy_columns add", {q, q, q}, [&] { ops_.copy_columns({queries, 0, qkv, 0, queries.cols(), Write::add}); });
  const Tensor o_part = q.reshaped({1, s.tokens, s.heads, s.head_dim}), o = f32(o_part.shape);
  const Tensor lse = f32({1, s.heads, s.tokens}), lse_part = f32(lse.shape);
  memory("attention_merge", {o, o, o_part, lse, lse, lse_part}, [&] {
    ops_.attention_merge({o, lse, o_part, lse_part});
  });
  timer_.drop();
}

void OpBenchmark::loss(const OpSizes& s) {
  const Tensor targets = ids({s.tokens}, s.vocab), stats = f32({s.tokens, 3});
  const Tensor loss = f32({s.tokens, 2}), logits = operand({s.tokens, s.vocab});
  const Vocabulary vocabulary{.first_id = 0, .valid_ids = s.vocab, .masked_ids = {}};
  memory("softmax_stats", {logits, stats}, [&] { ops_.softmax_stats({stats, logits, targets, vocabulary}); });
  const Tensor parts = f32({4, s.tokens, 3});  // parts of 4 ranks
  memory("softmax_stats_merge", {parts, stats}, [&] { ops_.softmax_stats_merge({stats, parts}); });
  memory("cross_entropy", {stats, loss}, [&] { ops_.cross_entropy({loss, stats, targets}); });
  memory("cross_entropy_backward", {logits, logits, loss}, [&] {
    ops_.cross_entropy_backward({logits, loss, targets, vocabulary, 1e-3, 0.0});
  });
  timer_.drop();
}

void OpBenchmark::optimizer(int64_t parameters) {
  const Tensor param = f32({parameters}), m = f32(param.shape), v = f32(param.shape), grad = f32(param.shape);
  const Tensor sums = f32({1}), weights = t_ == DType::bf16 ? operand(param.shape) : Tensor();
  ops_.zero({v});
  const Tensor states[] = {m, v};
  static_assert(std::size(states) == rules::kMaxStates);
#define FP_UPDATE(Rule, name)                                                          \
  {                                                                                    \
    calls::Rule call{param, {}, grad, weights, {.lr = 1e-4, .weight_decay = 0.1}, {}}; \
    std::vector<Tensor> operands = {param, param, grad, weights};                      \
    for (size_t i = 0; i < call.states.size(); ++i) {                                  \
      call.states[i] = states[i];                                                      \
      operands.insert(operands.end(), 2, states[i]);                                   \
    }                                                                                  \
    memory(#name, operands, [&] { ops_.name(call); });                                 \
  }
  FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE
  if (weights)
    memory("round_stochastically", {param, weights}, [&] { ops_.round_stochastically({weights, param, {}}); });
  const BlockFormat format{8, 256};
  const Tensor bytes = f32({packed_bytes(format, parameters) / 4}), again = f32(bytes.shape);
  const Tensor packed(bytes.data, DType::u8, {1, packed_bytes(format, parameters)}),
      parts(packed.data, DType::u8, {1, 1, packed.cols()}), requantized(again.data, DType::u8, packed.shape);
  const Tensor row = grad.reshaped({1, parameters});
  memory("quantize", {row, packed}, [&] { ops_.quantize({packed, row, format}); });
  memory("sum_quantized", {packed, row}, [&] { ops_.sum_quantized({row, parts, format}); });
  memory("requantize_sums", {packed, packed}, [&] {
    ops_.requantize_sums({requantized, parts, parameters, format, format});
  });
  const std::vector<IndexRange> all = {{0, parameters}};
  memory("sum_squares", {grad}, [&] { ops_.sum_squares({sums, grad, all}); });
  const Tensor two = f32({1, 2});
  memory("bit_sums", {grad}, [&] { ops_.bit_sums({Tensor(two.data, DType::i32, {2}), grad}); });
  memory("piece_sums", {grad}, [&] { ops_.piece_sums({two, grad}); });
  timer_.drop();
}

}  // namespace fp
