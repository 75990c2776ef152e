#include "config/model_facts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace fp {

namespace {

int64_t norm_parameters(const ModelSection& m) { return (m.traits().norm == NormKind::layernorm ? 2 : 1) * m.hidden; }

int64_t attention_weights(const ModelSection& m) {
  return m.hidden * (m.heads + 2 * m.kv_heads) * m.head_dim + m.heads * m.head_dim * m.hidden;
}

int64_t ffn_weights(const ModelSection& m) { return (m.traits().gated() ? 3 : 2) * m.hidden * m.ffn; }

// Returns the (query, key) pairs per head of a blocksparse layer, the diagonal counted half. A query in block i sees
// the local blocks i - local < k <= i and, further back, those with (k + head * step + 1) % stride == 0.
double blocksparse_pairs(const ModelSection& m, int64_t seq_len) {
  const BlocksparseSpec& b = m.blocksparse;
  const int64_t step = b.homo_heads ? 0 : std::max<int64_t>(1, b.vertical_stride / m.heads);
  double pairs = 0;
  for (int64_t head = 0; head < m.heads; ++head)
    for (int64_t i = 0; i * b.block < seq_len; ++i) {
      const auto rows = static_cast<double>(std::min(b.block, seq_len - i * b.block));
      const int64_t local = std::min(i, b.local_blocks - 1);  // whole blocks before the query's own
      const int64_t remote = i - local, shift = head * step;  // blocks 0 .. remote - 1 are further back
      const int64_t columns = (remote + shift) / b.vertical_stride - shift / b.vertical_stride;
      pairs += rows * static_cast<double>((local + columns) * b.block) + rows * rows / 2;
    }
  return pairs / static_cast<double>(m.heads);
}

bool blocksparse_layer(const ModelSection& m, int64_t layer) {
  const int64_t every = m.blocksparse.dense_every;
  return m.traits().blocksparse && every > 0 && (layer + 1) % every != 0;
}

}  // namespace

int64_t padded_vocab(const ModelSection& m) { return (m.vocab + m.pad_vocab_to - 1) / m.pad_vocab_to * m.pad_vocab_to; }

int64_t parameters_per_layer(const ModelSection& m) {
  FP_CHECK(m.kv_heads > 0 && m.head_dim > 0 && m.ffn > 0, "model section is not resolved");
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  int64_t sum = attention_weights(m) + ffn_weights(m) + 2 * norm_parameters(m);
  if (m.traits().has_qkv_bias()) sum += q + 2 * kv;
  if (m.traits().qk_norm) sum += 2 * m.head_dim;
  if (m.traits().bias) sum += m.hidden + (m.traits().gated() ? 2 : 1) * m.ffn + m.hidden;
  return sum;
}

int64_t parameter_count(const ModelSection& m, int64_t vocab_rows) {
  const int64_t positions = m.traits().learned_positions ? m.max_position * m.hidden : 0;
  return (m.tied_embeddings ? 1 : 2) * vocab_rows * m.hidden + positions + m.layers * parameters_per_layer(m) +
         norm_parameters(m);
}

double mean_keys(const ModelSection& m, int64_t layer, int64_t seq_len, AttentionCount count) {
  const auto t = static_cast<double>(seq_len);
  if (count == AttentionCount::full) return t;
  if (count == AttentionCount::causal) return t / 2;
  if (blocksparse_layer(m, layer)) return blocksparse_pairs(m, seq_len) / t;
  const double w = m.sliding_window > 0 ? std::min(t, static_cast<double>(m.sliding_window)) : t;
  return w - w * (w - 1) / (2 * t) - 0.5;
}

double flops_per_token(const ModelSection& m, int64_t seq_len, AttentionCount count) {
  const auto weights = static_cast<double>(m.layers * (attention_weights(m) + ffn_weights(m)) + m.hidden * m.vocab);
  // Layers are of at most two kinds, dense and blocksparse: count each kind once.
  int64_t sparse_layers = 0, dense_layer = -1, sparse_layer = -1;
  for (int64_t l = 0; l < m.layers; ++l) {
    const bool sparse = blocksparse_layer(m, l);
    sparse_layers += sparse;
    (sparse ? sparse_layer : dense_layer) = l;
  }
  double keys = 0;
  if (sparse_layer >= 0) keys += static_cast<double>(sparse_layers) * mean_keys(m, sparse_layer, seq_len, count);
  if (dense_layer >= 0)
    keys += static_cast<double>(m.layers - sparse_layers) * mean_keys(m, dense_layer, seq_len, count);
  return 6 * weights + 12 * static_cast<double>(m.heads * m.head_dim) * keys;
}

double layer_flops_per_token(const ModelSection& m, int64_t layer, int64_t seq_len) {
  return 6 * static_cast<double>(attention_weights(m) + ffn_weights(m)) +
         12 * static_cast<double>(m.heads * m.head_dim) * mean_keys(m, layer, seq_len, AttentionCount::pattern);
}

double head_flops_per_token(const ModelSection& m) { return 6 * static_cast<double>(m.hidden * m.vocab); }

double longrope_attention_factor(const RopeSpec& r, int64_t max_position) {
  const double original = static_cast<double>(r.original_max_position),
               s = static_cast<double>(max_position) / original;
  return s <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(s) / std::log(original));
}

}  // namespace fp
