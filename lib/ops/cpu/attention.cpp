#include <vector>

#include "base/parallel.h"
#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dropout.h"

namespace fp {
namespace {

constexpr int64_t kFewQueries = 4;  // for which packing the keys costs more than it saves

cpu::AttentionArgs attention_args(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                                  const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& s) {
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
          .v = v.data,
          .o = o.data,
          .lse = lse.ptr<float>(),
          .doc_start = doc_start ? doc_start.ptr<int32_t>() : nullptr,
          .sample_ids = sample_ids ? sample_ids.ptr<int32_t>() : nullptr,
          .dropout = cpu::dropout_args(s.dropout),
          .threads = max_threads()};
}

// One key a head.
std::vector<uint32_t> dropout_keys(const AttentionSpec& s, int64_t heads) {
  std::vector<uint32_t> keys;
  if (s.dropout.p == 0.0) return keys;
  for (int64_t h = 0; h < heads; ++h) {
    const Philox::Key key = dropout_key(s.dropout, static_cast<uint32_t>(s.first_head + h));
    keys.insert(keys.end(), key.begin(), key.end());
  }
  return keys;
}

}  // namespace

void CpuOps::attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) {
  checks::attention(o, lse, q, k, v, doc_start, sample_ids, spec);
  cpu::AttentionArgs args = attention_args(q, k, v, o, lse, doc_start, sample_ids, spec);
  const std::vector<uint32_t> keys = dropout_keys(spec, args.heads);
  const bool decode = args.q_len <= kFewQueries && args.head_dim <= cpu::kMaxDecodeHead && spec.dropout.p == 0.0;
  const auto scratch =
      scratch_.lend(decode ? attention_.attention_decode_scratch(args) : attention_.attention_scratch(args));
  args.dropout_keys = keys.data();
  args.scratch = scratch.data();
  decode ? attention_.attention_decode(args) : attention_.attention(args);
}

void CpuOps::attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o,
                                const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                                const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) {
  checks::attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, doc_start, sample_ids, spec);
  cpu::AttentionArgs args = attention_args(q, k, v, o, lse, doc_start, sample_ids, spec);
  const std::vector<uint32_t> keys = dropout_keys(spec, args.heads);
  const auto scratch = scratch_.lend(attention_.attention_backward_scratch(args));
  args.dropout_keys = keys.data();
  args.scratch = scratch.data();
  args.d_o = d_o.data;
  args.dq = dq.data;
  args.dk = dk.data;
  args.dv = dv.data;
  attention_.attention_backward(args);
}

}  // namespace fp
