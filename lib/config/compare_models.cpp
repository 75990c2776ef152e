#include "config/compare_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/run_spec_fields.h"

namespace fp {
namespace {

template <class T>
std::string shown_value(const T& value) {
  return fmt::format("{}", value);
}
std::string shown_value(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "null"; }

class Comparison {
 public:
  template <class T>
  void of(const char* key, const T& here, const T& there) {
    if (here != there)
      found.push_back(fmt::format("model.{}: {} here, {} there", key, shown_value(here), shown_value(there)));
  }
  std::vector<std::string> found;
};

void compare_rope(const RopeSpec& a, const RopeSpec& b, Comparison& compare) {
  compare.of("rope.kind", a.kind, b.kind);
  compare.of("rope.theta", a.theta, b.theta);
  compare.of("rope.factor", a.factor, b.factor);
  compare.of("rope.low_freq_factor", a.low_freq_factor, b.low_freq_factor);
  compare.of("rope.high_freq_factor", a.high_freq_factor, b.high_freq_factor);
  compare.of("rope.original_max_position", a.original_max_position, b.original_max_position);
  compare.of("rope.position_scale", a.position_scale, b.position_scale);
  compare.of("rope.short_factor", a.short_factor, b.short_factor);
  compare.of("rope.long_factor", a.long_factor, b.long_factor);
  compare.of("rope.attention_factor", a.attention_factor, b.attention_factor);
  compare.of("rope.scale_short", a.scale_short, b.scale_short);
}

}  // namespace

std::vector<std::string> size_differences(const ModelSection& a, const ModelSection& b) {
  Comparison compare;
  compare.of("family", a.family, b.family);
  compare.of("layers", a.layers, b.layers);
  compare.of("hidden", a.hidden, b.hidden);
  compare.of("ffn", a.ffn, b.ffn);
  compare.of("tied_embeddings", a.tied_embeddings, b.tied_embeddings);
  if (a.vocab < b.vocab) compare.of("vocab", a.vocab, b.vocab);
  const bool learned = a.traits().learned_positions && b.traits().learned_positions;
  if (learned && a.max_position < b.max_position) compare.of("max_position", a.max_position, b.max_position);
  return compare.found;
}

std::vector<std::string> model_differences(const ModelSection& a, const ModelSection& b) {
  Comparison compare;
  compare.of("heads", a.heads, b.heads);
  compare.of("kv_heads", a.kv_heads, b.kv_heads);
  compare.of("head_dim", a.head_dim, b.head_dim);
  // It is a limit, except where longrope derives its attention factor from it.
  if (a.rope.kind == RopeKind::longrope || b.rope.kind == RopeKind::longrope)
    compare.of("max_position", a.max_position, b.max_position);
  compare.of("norm_eps", a.norm_eps, b.norm_eps);
  compare.of("sliding_window", a.sliding_window, b.sliding_window);
  compare.of("gegelu_limit", a.gegelu_limit, b.gegelu_limit);
  compare.of("masked_ids", a.masked_ids, b.masked_ids);
  compare_rope(a.rope, b.rope, compare);
  compare.of("blocksparse.block", a.blocksparse.block, b.blocksparse.block);
  compare.of("blocksparse.local_blocks", a.blocksparse.local_blocks, b.blocksparse.local_blocks);
  compare.of("blocksparse.vertical_stride", a.blocksparse.vertical_stride, b.blocksparse.vertical_stride);
  compare.of("blocksparse.dense_every", a.blocksparse.dense_every, b.blocksparse.dense_every);
  compare.of("blocksparse.homo_heads", a.blocksparse.homo_heads, b.blocksparse.homo_heads);
  compare.of("mup.embedding", a.mup.embedding, b.mup.embedding);
  compare.of("mup.width", a.mup.width, b.mup.width);
  compare.of("mup.attention", a.mup.attention, b.mup.attention);
  return compare.found;
}

}  // namespace fp
