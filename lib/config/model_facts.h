// Parameter counts and FLOPs of a model, in closed form from its model section. The model code does not use them; tests
// compare the two. Sections must be resolved (config/load.h).
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// Returns the rows of the embedding in memory: vocab rounded up to a multiple of pad_vocab_to.
int64_t padded_vocab(const ModelSection&);

// Returns the number of trainable parameters; tied embeddings count once. `vocab_rows` is the number of rows of the
// embedding (and of an untied output projection): vocab for the logical model, padded_vocab() for the tensors in
// memory, 0 to exclude both.
int64_t parameter_count(const ModelSection&, int64_t vocab_rows);
inline int64_t parameter_count(const ModelSection& m) { return parameter_count(m, m.vocab); }
// Returns the number of parameters of one block.
int64_t parameters_per_layer(const ModelSection&);
// Returns the fraction of the parameters that is in matrices of blocks (their vectors included, which are few).
inline double matrix_fraction(const ModelSection& m) {
  return static_cast<double>(m.layers * parameters_per_layer(m)) / static_cast<double>(parameter_count(m));
}

// Which keys count for a query: full: all of the sequence; causal: those at and before it; pattern: those that the
// model's sliding window and blocksparse layers let it attend to.
enum class AttentionCount { full, causal, pattern };

// Returns the number of keys that a query of layer `layer` attends to, averaged over a sequence and over the heads.
// Causal is seq_len / 2, as is usual in FLOP counts (a query's own key counts half).
double mean_keys(const ModelSection&, int64_t layer, int64_t seq_len, AttentionCount);

// Returns the factor by which longrope multiplies cos and sin if the spec has no attention_factor: with s =
// max_position / original_max_position, 1 for s <= 1, else sqrt(1 + ln(s) / ln(original_max_position)).
double longrope_attention_factor(const RopeSpec&, int64_t max_position);

// Returns the FLOPs of forward and backward per token (a multiply-add is 2): 6 per weight of every matrix product plus
// 12 * heads * head_dim * mean keys per layer. Embedding look-ups, norms and recomputation are not counted.
double flops_per_token(const ModelSection&, int64_t seq_len, AttentionCount);

// As flops_per_token with the model's own attention pattern, for one layer and for the projection onto the vocabulary.
double layer_flops_per_token(const ModelSection&, int64_t layer, int64_t seq_len);
double head_flops_per_token(const ModelSection&);

// Returns the FLOPs that MFU is computed from: flops_per_token with the model's own attention pattern.
inline double model_flops_per_token(const ModelSection& m, int64_t seq_len) {
  return flops_per_token(m, seq_len, AttentionCount::pattern);
}

}  // namespace fp
