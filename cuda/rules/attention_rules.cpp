#include "cuda/rules/attention_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace fp::cuda {
namespace {

constexpr int64_t kTile = 128;  // cuDNN pads queries and keys to whole tiles

int64_t in_whole_tiles(int64_t n) { return (n + kTile - 1) / kTile * kTile; }

int64_t largest_head(int compute_major) { return compute_major == 9 ? 256 : 128; }

// Heads above 96 do not fit the shared memory of the smaller GPUs of 8.x and 12.x, where nothing but cuDNN runs them.
bool flash_runs(int compute_major, int64_t head_dim) {
  return head_dim <= 96 || compute_major == 9 || compute_major == 10;
}

std::string version_text(int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string refusal_of_version(AttentionPass pass, int64_t version, int compute_major, const AttentionShape& shape) {
  // 9.10.0 and 9.10.1 compute wrong results; versions before 9.10 do so for a mask of -infinity.
  if (version < cudnn_version(9, 10, 2)) return fmt::format("cuDNN {} is older than 9.10.2", version_text(version));
  if (shape.keys % 128 != 0 && version <= cudnn_version(9, 15, 0))
    return fmt::format("{} keys are not a multiple of 128, which cuDNN {} masks incorrectly", shape.keys,
                       version_text(version));
  if (pass == AttentionPass::backward && compute_major >= 10 && version < cudnn_version(9, 18, 0))
    return fmt::format("cuDNN {} has no deterministic backward pass for this GPU (9.18 has)", version_text(version));
  return "";
}

}  // namespace

std::string cudnn_refusal(AttentionPass pass, int64_t version, int compute_major, const AttentionShape& shape,
                          const AttentionSpec& spec, DType dtype, bool has_documents) {
  if (dtype != DType::bf16) return fmt::format("{} operands", name_of(dtype));
  if (spec.dropout.p > 0.0) return "attention dropout";
  if (spec.block != 0) return "blocksparse mask";
  if (!sees_all_keys(shape, spec) && (spec.q_offset != spec.k_offset || shape.queries != shape.keys))
    return "offsets between queries and keys";
  if (has_documents && spec.q_offset != 0) return "packed documents that start before the first query";
  if (shape.head_dim % 8 != 0) return fmt::format("head size {} is not a multiple of 8", shape.head_dim);
  if (shape.head_dim > largest_head(compute_major))
    return fmt::format("head size {} is above {} on compute capability {}.x", shape.head_dim,
                       largest_head(compute_major), compute_major);
  if (shape.queries < 2) return "a sequence of one token";
  // A decoder's prompts have many short lengths, each of which would build a graph for up to a second.
  if (pass == AttentionPass::forward && shape.queries < kTile && flash_runs(compute_major, shape.head_dim))
    return fmt::format("{} queries, fewer than {}", shape.queries, kTile);
  if (compute_major < 8) return "a GPU before compute capability 8.0";
  if (pass == AttentionPass::backward && slice_below(kScoreGradientLimit, shape).sequences == 0) {
    const size_t head = score_gradient_bytes(shape) / static_cast<size_t>(shape.kv_heads);
    if (head <= kScoreGradientLimit) return "no slice of its heads starts at a multiple of 16 bytes";
    return fmt::format(
        "its deterministic backward pass would keep {} MiB of score gradients for a head of keys, of at most {}; "
        "chunks of up to {} tokens fit",
        head >> 20, kScoreGradientLimit >> 20, longest_chunk(kScoreGradientLimit, shape));
  }
  return refusal_of_version(pass, version, compute_major, shape);
}

bool sees_all_keys(const AttentionShape& shape, const AttentionSpec& spec) {
  const int64_t first = spec.q_offset - spec.k_offset;  // position of the first query, counted from the first key
  return spec.block == 0 && first >= shape.keys - 1 && (spec.window <= 0 || first + shape.queries <= spec.window);
}

BandBounds band_bounds(const AttentionShape& shape, const AttentionSpec& spec) {
  if (spec.window <= 0 || spec.window >= shape.keys) return {};
  return {true, spec.window};
}

size_t score_gradient_bytes(const AttentionShape& shape) {
  return static_cast<size_t>(shape.heads * in_whole_tiles(shape.queries) * in_whole_tiles(shape.keys)) * sizeof(bf16);
}

AttentionSlice slice_below(size_t limit, const AttentionShape& shape) {
  const size_t sequence = score_gradient_bytes(shape);
  for (int64_t n = shape.batch; n >= 1; --n) {
    const bool aligned = n == shape.batch || n * shape.queries % 4 == 0;
    if (shape.batch % n == 0 && aligned && static_cast<size_t>(n) * sequence <= limit) return {n, shape.kv_heads};
  }
  const size_t head = sequence / static_cast<size_t>(shape.kv_heads);
  const auto whole_vectors = [&](int64_t kv_heads) {
    const bool of_doc_start = shape.batch == 1 || shape.queries % 4 == 0;
    return of_doc_start && kv_heads * (shape.heads / shape.kv_heads) * shape.queries % 4 == 0;
  };
  for (int64_t n = shape.kv_heads - 1; n >= 1; --n)
    if (shape.kv_heads % n == 0 && whole_vectors(n) && static_cast<size_t>(n) * head <= limit) return {1, n};
  return {};
}

int64_t longest_chunk(size_t limit, const AttentionShape& shape) {
  AttentionShape head{.heads = shape.heads / shape.kv_heads};
  for (int64_t tokens = kTile;; tokens += kTile) {
    head.queries = head.keys = tokens;
    if (score_gradient_bytes(head) > limit) return tokens - kTile;
  }
}

int64_t tile_tokens(size_t limit, const AttentionShape& shape) {
  const int64_t most = std::max(longest_chunk(limit, shape), kTile), length = std::max(shape.queries, shape.keys);
  const int64_t tiles = (length + most - 1) / most;
  return in_whole_tiles((length + tiles - 1) / tiles);
}

AttentionShape shape_of(const AttentionSlice& slice, AttentionShape whole) {
  whole.heads = whole.heads / whole.kv_heads * slice.kv_heads;
  whole.kv_heads = slice.kv_heads;
  whole.batch = slice.sequences;
  return whole;
}

}  // namespace fp::cuda
