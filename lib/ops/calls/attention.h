// Calls of attention, the only ops that mix tokens.
#pragma once

#include "ops/calls/call.h"
#include "ops/draws.h"

namespace fp {

struct AttentionSpec {
  double scale = 1.0;    // scores = scale * q.k
  int64_t window = 0;    // number of keys a query sees, its own included; 0: all keys up to its own
  int64_t q_offset = 0;  // position of the first query in the sequence
  int64_t k_offset = 0;  // position of the first key
  // Blocksparse (phi-3-small): query block qb sees key block kb if and only if qb-kb < local_blocks or
  // (kb + head*head_step + 1) % vertical_stride == 0, where head = first_head + local head index counts the heads of
  // all ranks. block = 0: dense.
  int64_t block = 0, local_blocks = 0, vertical_stride = 0, head_step = 1, first_head = 0;
  Dropout dropout;  // on the probabilities; (element, token) = (key, query) position, head = first_head + local
};

// Returns whether query position p of a head sees key position n; documents are not considered. Every backend is tested
// against this definition.
constexpr bool attends(const AttentionSpec& s, int64_t head, int64_t p, int64_t n) {
  if (n > p || (s.window > 0 && n <= p - s.window)) return false;
  if (s.block == 0) return true;
  const int64_t qb = p / s.block, kb = n / s.block;
  return qb - kb < s.local_blocks || (kb + (s.first_head + head) * s.head_step + 1) % s.vertical_stride == 0;
}

namespace calls {

// q, o [B,Tq,H,d]; k, v [B,Tk,K,d], H a multiple of K (query head j uses kv head j / (H/K)); lse f32 [B,H,Tq] = log of
// the sum of exp(scores). The query at position p = q_offset + i sees the keys at positions n = k_offset + j with
// max(doc_start[b,i], p - window + 1) <= n <= p that the blocksparse mask allows. doc_start i32 [B,Tq] holds positions;
// empty: all 0. A query that sees no key gets o = 0 and lse = -infinity, so that partial results can be merged.
struct Attention {
  Tensor o, lse, q, k, v, doc_start = {}, sample_ids = {};
  AttentionSpec spec;
};

// Merges attention over one set of keys (o, lse) with attention over another (o_part, lse_part), in place: with
// l = log(exp(lse) + exp(lse_part)), o = exp(lse - l) o + exp(lse_part - l) o_part and lse = l. o f32 [B,T,H,d], lse
// and lse_part f32 [B,H,T], o_part f32 or bf16. A side whose lse is -infinity adds nothing, whatever its o holds; two
// such sides give 0 and -infinity.
struct AttentionMerge {
  Tensor o, lse, o_part, lse_part;
};

// Takes o and lse over all keys (after any merge). Writes dq, dk, dv, or adds to them: a chunk of keys adds to the dq
// of its queries, a chunk of queries to the dk and dv of its keys. Each sum is rounded once, but by cuDNN, which rounds
// the part of each query head, and in tiles, where each tile's part is rounded.
struct AttentionBackward {
  Tensor dq, dk, dv, d_o, q, k, v, o, lse, doc_start = {}, sample_ids = {};
  AttentionSpec spec;
  Write dq_write = Write::set, dkv_write = Write::set;
};

}  // namespace calls
}  // namespace fp
