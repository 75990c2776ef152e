// Which attention cuDNN can compute for us, decided from shapes alone, and how its terms map to ours. What these rules
// let through may still be refused by cuDNN when the graph is built.
//
// Source: the support tables of NVIDIA/cudnn-frontend (docs/operations/Attention.md, node/sdpa_support_surface.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/ops.h"

namespace fp::cuda {

// q and o [batch, queries, heads, head_dim]; k and v [batch, keys, kv_heads, head_dim].
struct AttentionShape {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 1;
  bool operator==(const AttentionShape&) const = default;
};

// cuDNN may run one of them only: both backends keep the natural logarithm in lse, so each pass is chosen by itself.
enum class AttentionPass { forward, backward };

// cuDNN's versions as cudnnGetVersion() says them: 91900 is 9.19.0.
constexpr int64_t cudnn_version(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// Why cuDNN of this version on a GPU of this compute capability cannot run this pass, as a clause ("head size 81 is not
// a multiple of 8"); empty when nothing is known against it.
std::string cudnn_refusal(AttentionPass, int64_t version, int compute_major, const AttentionShape&,
                          const AttentionSpec&, DType, bool has_documents);

// cuDNN masks by bounds on the diagonal band: a key is seen when row - left < column <= row. `left` is our window, no
// bound where it reaches beyond the first key anyway.
struct BandBounds {
  bool has_left = false;
  int64_t left = 0;
};
BandBounds band_bounds(const AttentionShape&, const AttentionSpec&);

// The backward pass is deterministic because it keeps the gradient of the scores (bf16, padded to whole tiles) in
// memory instead of adding to dq from many blocks at once. So it runs over as many sequences at a time as stay below
// this.
constexpr size_t kScoreGradientLimit = size_t{2} << 30;
size_t score_gradient_bytes(const AttentionShape&);  // of one sequence
// A divisor of the batch that leaves every slice of lse and doc_start 16-byte aligned; 0: there is none that fits.
int64_t sequences_at_once(const AttentionShape&, size_t limit = kScoreGradientLimit);

}  // namespace fp::cuda
