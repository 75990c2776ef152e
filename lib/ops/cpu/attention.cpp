#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dropout.h"

namespace fp {
namespace {

constexpr int64_t kFewQueries = 4;  // up to this many, packing the keys costs more than it saves

// Returns the operands that both passes have.
template <class Call>
cpu::AttentionArgs attention_args(const Call& call) {
  const Tensor &q = call.q, &k = call.k;
  const AttentionSpec& s = call.spec;
  return {.bf16 = q.dtype == DType::bf16,
          .batch = q.shape[0],
          .q_len = q.shape[1],
          .k_len = k.shape[1],
          .heads = q.shape[2],
          .kv_heads = k.shape[2],
          .head_dim = q.shape[3],
          .scale = static_cast<float>(s.scale),
          .window = s.window,
          .q_offset = s.q_offset,
          .k_offset = s.k_offset,
          .block = s.block,
          .local_blocks = s.local_blocks,
          .vertical_stride = s.vertical_stride,
          .head_step = s.head_step,
          .first_head = s.first_head,
          .q = q.data,
          .k = k.data,
          .v = call.v.data,
          .o = call.o.data,
          .lse = call.lse.template ptr<float>(),
          .doc_start = call.doc_start ? call.doc_start.template ptr<int32_t>() : nullptr,
          .sample_ids = call.sample_ids ? call.sample_ids.template ptr<int32_t>() : nullptr,
          .dropout = cpu::dropout_args(s.dropout),
          .threads = max_threads()};
}

bool decodes(const cpu::AttentionArgs& a, const AttentionSpec& s) {
  return a.q_len <= kFewQueries && a.head_dim <= cpu::kMaxDecodeHead && s.dropout.p == 0.0;
}

// One Philox key per head.
std::vector<uint32_t> dropout_keys(const AttentionSpec& s, int64_t heads) {
  std::vector<uint32_t> keys;
  if (s.dropout.p == 0.0) return keys;
  for (int64_t h = 0; h < heads; ++h) {
    const Philox::Key key = dropout_key(s.dropout, static_cast<uint32_t>(s.first_head + h));
    keys.insert(keys.end(), key.begin(), key.end());
  }
  return keys;
}

template <class T>
void merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) {
  const int64_t tokens = o.shape[1], heads = o.shape[2], d = o.shape[3];
  parallel_for(o.rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = row / heads, at = (token / tokens * heads + row % heads) * tokens + token % tokens;
      float* y = o.ptr<float>() + row * d;
      const T* x = o_part.ptr<T>() + row * d;
      float& l = lse.ptr<float>()[at];
      const float part = lse_part.ptr<float>()[at], top = std::max(l, part);
      const float none = -std::numeric_limits<float>::infinity(), base = top == none ? 0.0f : top;
      const float own_weight = std::exp(l - base), part_weight = std::exp(part - base), sum = own_weight + part_weight;
      if (l == none) std::fill(y, y + d, 0.0f);
      if (part != none)
        for (int64_t i = 0; i < d; ++i) y[i] = (own_weight * y[i] + part_weight * static_cast<float>(x[i])) / sum;
      l = base + std::log(sum);
    }
  });
}

}  // namespace

size_t CpuOps::scratch_of(const calls::Attention& call) const {
  const cpu::AttentionArgs args = attention_args(call);
  return decodes(args, call.spec) ? k_.attention_decode_scratch(args) : k_.attention_scratch(args);
}

void CpuOps::run(const calls::Attention& call) {
  cpu::AttentionArgs args = attention_args(call);
  const std::vector<uint32_t> keys = dropout_keys(call.spec, args.heads);
  const auto scratch = scratch_.acquire(scratch_of(call));
  args.dropout_keys = keys.data();
  args.scratch = scratch.data();
  decodes(args, call.spec) ? k_.attention_decode(args) : k_.attention(args);
}

void CpuOps::run(const calls::AttentionMerge& call) {
  call.o_part.dtype == DType::bf16 ? merge<bf16>(call.o, call.lse, call.o_part, call.lse_part)
                                   : merge<float>(call.o, call.lse, call.o_part, call.lse_part);
}

size_t CpuOps::scratch_of(const calls::AttentionBackward& call) const {
  return k_.attention_backward_scratch(attention_args(call));
}

void CpuOps::run(const calls::AttentionBackward& call) {
  cpu::AttentionArgs args = attention_args(call);
  const std::vector<uint32_t> keys = dropout_keys(call.spec, args.heads);
  const auto scratch = scratch_.acquire(scratch_of(call));
  args.dropout_keys = keys.data();
  args.scratch = scratch.data();
  args.d_o = call.d_o.data;
  args.dq = call.dq.data;
  args.dk = call.dk.data;
  args.dv = call.dv.data;
  args.add_dq = call.dq_write == Write::add;
  args.add_dkv = call.dkv_write == Write::add;
  k_.attention_backward(args);
}

}  // namespace fp
