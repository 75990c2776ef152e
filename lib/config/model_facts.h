// What follows from a model section alone: sizes and work, in closed form. The model's own code never uses these; tests
// hold the two against each other. Sections must be resolved (config/load.h).
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// Rows of the embedding in memory: vocab rounded up to a multiple of pad_vocab_to.
int64_t padded_vocab(const ModelSection&);

// Trainable parameters; tied embeddings count once. `vocab_rows` are the rows of the embedding (and of an untied output
// projection): vocab for the logical model, padded_vocab() for what is in memory, 0 for all but those.
int64_t parameter_count(const ModelSection&, int64_t vocab_rows);
inline int64_t parameter_count(const ModelSection& m) { return parameter_count(m, m.vocab); }
// Of one transformer block.
int64_t parameters_per_layer(const ModelSection&);

// Which keys a query is charged for: all of the sequence; those at and before it; those of the model's own window and
// blocksparse layers.
enum class AttentionCount { full, causal, pattern };

// Mean number of keys that a query of layer `layer` attends to, over a sequence and over the heads. Causal is T/2, as
// is usual in FLOP counts (a query's own key counts half).
double mean_keys(const ModelSection&, int64_t layer, int64_t seq_len, AttentionCount);

// What longrope multiplies cos and sin by where the spec names no attention_factor: with s = max_position /
// original_max_position, 1 for s <= 1, else sqrt(1 + ln(s) / ln(original_max_position)).
double longrope_attention_factor(const RopeSpec&, int64_t max_position);

// Multiply-adds of forward and backward, times 2, per token: 6 per weight of every matrix product plus
// 12 * heads * head_dim * mean keys a layer. Embedding look-ups, norms and recomputation are not counted.
double flops_per_token(const ModelSection&, int64_t seq_len, AttentionCount);

// The same of one layer, and of the projection onto the vocabulary, with the model's own attention pattern.
double layer_flops_per_token(const ModelSection&, int64_t layer, int64_t seq_len);
double head_flops_per_token(const ModelSection&);

// What MFU is computed from: flops_per_token with the model's own attention pattern.
inline double model_flops_per_token(const ModelSection& m, int64_t seq_len) {
  return flops_per_token(m, seq_len, AttentionCount::pattern);
}

// Other projects' counts, to compare figures with theirs.
// Megatron-LM (2021) without recomputation, 72 L h^2 (1 + T/(6h) + V/(12 L h)): full attention, kv_heads = heads, ffn =
// 4h.
double megatron_flops_per_token(const ModelSection&, int64_t seq_len);
// nanoGPT: 6 N + 12 L H d T, N without the position table.
double nanogpt_flops_per_token(const ModelSection&, int64_t seq_len);
// llm.c: 6 N + 6 L h T, N with the padded vocabulary.
double llmc_flops_per_token(const ModelSection&, int64_t seq_len);

}  // namespace fp
