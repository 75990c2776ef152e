// Rules for the attention calls that cuDNN supports, from shapes alone, and the translation of masks to its terms. A
// call that these rules allow may still be refused by cuDNN when the graph is built.
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

// A pass of attention. cuDNN may support only one of the two. Its implementation and fptrain's own both store the
// natural logarithm in lse, so the implementation of each pass is chosen separately.
enum class AttentionPass { forward, backward };

// Returns a cuDNN version in the form of cudnnGetVersion(): 91900 is 9.19.0.
constexpr int64_t cudnn_version(int major, int minor, int patch) { return major * 10000 + minor * 100 + patch; }

// Returns why cuDNN of this version on a GPU of this compute capability cannot run this pass, as a clause ("head size
// 81 is not a multiple of 8"); empty when it presumably can. The forward pass of fewer than 128 queries is left to
// flash attention where that runs: it is short, and each of its lengths would need a graph.
std::string cudnn_refusal(AttentionPass, int64_t version, int compute_major, const AttentionShape&,
                          const AttentionSpec&, DType, bool has_documents);

// Returns whether every query sees every key, as in a chunk of keys before all the queries: no mask is needed.
bool sees_all_keys(const AttentionShape&, const AttentionSpec&);

// cuDNN masks by bounds on the diagonal band: a key is seen when row - left < column <= row. `left` is fptrain's
// window; there is no bound when the window reaches beyond the first key anyway.
struct BandBounds {
  bool has_left = false;
  int64_t left = 0;
};
BandBounds band_bounds(const AttentionShape&, const AttentionSpec&);

// Limit on the memory for the gradient of the scores, in bytes. The backward pass is deterministic because it keeps
// that gradient (bf16, padded to whole tiles) in memory instead of adding to dq from many blocks at once; it processes
// as many sequences, or heads of one sequence, at a time as stay below the limit.
constexpr size_t kScoreGradientLimit = size_t{2} << 30;
size_t score_gradient_bytes(const AttentionShape&);  // for one sequence

// The part of a call that the backward pass processes at a time: sequences with all heads, or heads of one sequence.
struct AttentionSlice {
  int64_t sequences = 0, kv_heads = 0;  // 0: not even one head fits
  bool operator==(const AttentionSlice&) const = default;
};
// Returns the largest slice below the limit. Slices are equal, and their parts of lse and doc_start are 16-byte
// aligned.
AttentionSlice slice_below(size_t limit, const AttentionShape&);
// Returns the largest number of tokens, a multiple of 128, of a chunk of queries and keys for which the score gradient
// of one kv head stays below the limit, in bytes.
int64_t longest_chunk(size_t limit, const AttentionShape&);
// Returns how many tokens, a multiple of 128, a tile of queries and of keys has where a call runs in tiles: as few
// tiles as the limit allows, of about the same size.
int64_t tile_tokens(size_t limit, const AttentionShape&);
// Returns the shape of a slice.
AttentionShape shape_of(const AttentionSlice&, AttentionShape whole);

}  // namespace fp::cuda
