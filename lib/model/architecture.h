// Architecture: a model resolved from its section of the run spec, ready to compute with, and the ids of its
// parameters. The families differ only here: names and shapes (families/), norms, positions, MLP, multipliers. They
// share the code that computes (embedding, block, LM head). All are causal pre-norm decoders with a final norm.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "model/params.h"
#include "ops/ops.h"

namespace fp {

struct LinearIds {
  ParamId first = -1, last = -1;  // joined weights used as one matrix (Q, K, V; gate, up); first == last: one weight
  ParamId bias = -1, last_bias = -1;  // likewise; -1: none
};

struct NormIds {
  ParamId gain = -1, bias = -1;
};

struct AttentionIds {
  LinearIds qkv, proj;
  NormIds q_norm, k_norm;  // of each head; gain -1: none
};

struct FeedForwardIds {
  LinearIds up, down;
};

struct BlockIds {
  NormIds norm1, norm2;
  AttentionIds attention;
  FeedForwardIds mlp;
};

struct EmbeddingIds {
  ParamId tokens = -1;
  ParamId positions = -1;  // learned ones; -1: none
};

struct LmHeadIds {
  NormIds norm;
  ParamId projection = -1;  // equal to EmbeddingIds::tokens when tied
};

struct ModelIds {
  EmbeddingIds embedding;
  std::vector<BlockIds> blocks;
  LmHeadIds head;
};

struct Architecture {
  int64_t layers = 0, hidden = 0, ffn = 0;
  int64_t vocab = 0, padded_vocab = 0;
  int64_t max_position = 0;
  HeadLayout heads;
  NormSpec norm;
  ActivationSpec activation;
  RopeSpec rope;
  BlocksparseSpec blocksparse;
  bool blocksparse_layers = false;
  int64_t sliding_window = 0;
  double attention_scale = 1.0, embedding_scale = 1.0, logit_scale = 1.0;
  std::vector<int64_t> masked_ids;
  double dropout_embedding = 0, dropout_attention = 0, dropout_residual = 0, dropout_ffn = 0;

  // Whether attention in layer l is dense (all tokens before), not block-sparse.
  bool dense_layer(int64_t l) const {
    return !blocksparse_layers || blocksparse.dense_every == 0 || (l + 1) % blocksparse.dense_every == 0;
  }
  // Returns the scale, window and block mask of layer l.
  AttentionSpec attention(int64_t l) const;
};

// The kernels' names of these traits.
Norm norm_of(NormKind);
Activation activation_of(MlpKind);

// Resolves a model section, which must be complete (no derived zeros left, vocab known).
Architecture make_architecture(const ModelSection&);

// Adds every parameter of the model to the table, in forward order, and returns their ids.
ModelIds declare_parameters(const ModelSection&, ParamTable&);

// cos and sin of the rotary embedding for positions [0, positions), each [positions, d/2], times the attention factor.
// `total_length` selects LongRoPE's short or long factors. Angles are fp32, as in the published models.
struct RopeTable {
  std::vector<float> cos, sin;
};
RopeTable make_rope_table(const RopeSpec&, int64_t head_dim, int64_t max_position, int64_t positions,
                          int64_t total_length);

// Return the inverse frequencies w_i, i < d/2, and LongRoPE's factor on cos and sin (1 for other kinds).
std::vector<float> rope_frequencies(const RopeSpec&, int64_t head_dim, int64_t total_length);
double rope_attention_factor(const RopeSpec&, int64_t max_position, int64_t total_length);

}  // namespace fp
