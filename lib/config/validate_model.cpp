#include <algorithm>

#include "base/error.h"
#include "config/run_spec_fields.h"
#include "config/validate.h"

namespace fp {

namespace {

// Returns the divisors of `n` as text: "1, 2, 4 or 8".
std::string divisors(int64_t n) {
  std::vector<int64_t> list;
  for (int64_t i = 1; i <= n; ++i)
    if (n % i == 0) list.push_back(i);
  std::string s;
  for (size_t i = 0; i < list.size(); ++i)
    s += (i == 0 ? "" : i + 1 == list.size() ? " or " : ", ") + std::to_string(list[i]);
  return s;
}

void check_heads(const ModelSection& m, Checker& check) {
  check.require(
      m.head_dim > 0, {"model.head_dim", "model.heads", "model.hidden"},
      fmt::format("model.heads = {} does not divide model.hidden = {}; give model.head_dim or change one of them",
                  m.heads, m.hidden));
  check.require(m.heads % m.kv_heads == 0, {"model.kv_heads", "model.heads"},
                fmt::format("model.kv_heads = {} does not divide model.heads = {}; legal: {}", m.kv_heads, m.heads,
                            divisors(m.heads)));
  const FamilyTraits& traits = m.traits();
  if (!traits.shared_kv_heads)
    check.require(
        m.kv_heads == m.heads, {"model.kv_heads", "model.heads", "model.family"},
        fmt::format("model.kv_heads = {}: family {} has as many as heads, {}", m.kv_heads, m.family, m.heads));
  if (!traits.own_head_dim && m.head_dim > 0)
    check.require(m.heads * m.head_dim == m.hidden, {"model.head_dim", "model.heads", "model.hidden"},
                  fmt::format("model.heads * model.head_dim = {} * {} must be model.hidden = {} in family {}", m.heads,
                              m.head_dim, m.hidden, m.family));
  if (!traits.learned_positions)
    check.require(m.head_dim % 2 == 0, {"model.head_dim", "model.hidden", "model.heads"},
                  fmt::format("model.head_dim = {} must be even: rotary encoding turns pairs", m.head_dim));
  check.require(m.ffn > 0, {"model.ffn", "model.family"},
                fmt::format("model.ffn must be given for family {}", m.family));
}

// Refuses a value other than the default for a key that another key makes meaningless: the user expects it to matter.
template <class T>
void require_unused(Checker& check, const T& value, const T& unused, const std::string& key, const std::string& why,
                    const std::string& because) {
  check.require(value == unused, {key, because}, fmt::format("{} has no effect {}; remove it", key, why));
}

void check_unused_rope_keys(const ModelSection& m, Checker& check) {
  const RopeSpec& r = m.rope;
  const RopeSpec unused;
  const std::string why = fmt::format("with model.rope.kind {}", r.kind), because = "model.rope.kind";
  const bool llama3 = r.kind == RopeKind::llama3, longrope = r.kind == RopeKind::longrope;
  if (r.kind == RopeKind::none) require_unused(check, r.theta, unused.theta, "model.rope.theta", why, because);
  if (!llama3 && r.kind != RopeKind::linear)
    require_unused(check, r.factor, unused.factor, "model.rope.factor", why, because);
  if (!llama3) {
    require_unused(check, r.low_freq_factor, unused.low_freq_factor, "model.rope.low_freq_factor", why, because);
    require_unused(check, r.high_freq_factor, unused.high_freq_factor, "model.rope.high_freq_factor", why, because);
  }
  if (!llama3 && !longrope)
    require_unused(check, r.original_max_position, unused.original_max_position, "model.rope.original_max_position",
                   why, because);
  if (!longrope) {
    require_unused(check, r.short_factor, unused.short_factor, "model.rope.short_factor", why, because);
    require_unused(check, r.long_factor, unused.long_factor, "model.rope.long_factor", why, because);
    require_unused(check, r.attention_factor, unused.attention_factor, "model.rope.attention_factor", why, because);
    require_unused(check, r.scale_short, unused.scale_short, "model.rope.scale_short", why, because);
  }
  if (!m.traits().multipliers)
    require_unused(check, r.position_scale, unused.position_scale, "model.rope.position_scale",
                   fmt::format("in family {}", m.family), "model.family");
}

void check_rope(const ModelSection& m, Checker& check) {
  const RopeSpec& r = m.rope;
  const std::vector<RopeKind>& legal = m.traits().rope;
  std::string names;
  for (const RopeKind k : legal) names += (names.empty() ? "" : ", ") + std::string(name_of(k));
  check.require(std::find(legal.begin(), legal.end(), r.kind) != legal.end(), {"model.rope.kind", "model.family"},
                fmt::format("model.rope.kind = {} is not for family {}; legal: {}", r.kind, m.family, names));
  check_unused_rope_keys(m, check);
  const bool llama3 = r.kind == RopeKind::llama3, longrope = r.kind == RopeKind::longrope;
  if (llama3)
    check.require(r.low_freq_factor < r.high_freq_factor, {"model.rope.low_freq_factor", "model.rope.high_freq_factor"},
                  fmt::format("model.rope.low_freq_factor = {} must be under high_freq_factor = {}", r.low_freq_factor,
                              r.high_freq_factor));
  if (llama3 || longrope)
    check.require(r.original_max_position > 0, {"model.rope.original_max_position", "model.rope.kind"},
                  fmt::format("model.rope.original_max_position must be given with model.rope.kind {}", r.kind));
  if (!longrope) return;
  check.require(r.original_max_position <= m.max_position, {"model.rope.original_max_position", "model.max_position"},
                fmt::format("model.rope.original_max_position = {} must be at most model.max_position = {}",
                            r.original_max_position, m.max_position));
  const auto factors = [&](const char* key, const std::vector<double>& list) {
    check.require(
        static_cast<int64_t>(list.size()) == m.head_dim / 2, {std::string("model.rope.") + key, "model.rope.kind"},
        fmt::format("model.rope.{} has {} values; longrope needs head_dim / 2 = {}", key, list.size(), m.head_dim / 2));
  };
  factors("short_factor", r.short_factor);
  factors("long_factor", r.long_factor);
}

void check_family_keys(const ModelSection& m, Checker& check) {
  const ModelSection unused;
  const std::string why = fmt::format("in family {}", m.family), because = "model.family";
  const FamilyTraits& traits = m.traits();
  if (!traits.sliding_window)
    require_unused(check, m.sliding_window, unused.sliding_window, "model.sliding_window", why, because);
  if (!traits.multipliers) {
    require_unused(check, m.gegelu_limit, unused.gegelu_limit, "model.gegelu_limit", why, because);
    require_unused(check, m.mup.embedding, unused.mup.embedding, "model.mup.embedding", why, because);
    require_unused(check, m.mup.width, unused.mup.width, "model.mup.width", why, because);
    require_unused(check, m.mup.attention, unused.mup.attention, "model.mup.attention", why, because);
  }
  if (traits.blocksparse) return;
  const BlocksparseSpec &b = m.blocksparse, &nb = unused.blocksparse;
  require_unused(check, b.block, nb.block, "model.blocksparse.block", why, because);
  require_unused(check, b.local_blocks, nb.local_blocks, "model.blocksparse.local_blocks", why, because);
  require_unused(check, b.vertical_stride, nb.vertical_stride, "model.blocksparse.vertical_stride", why, because);
  require_unused(check, b.dense_every, nb.dense_every, "model.blocksparse.dense_every", why, because);
  require_unused(check, b.homo_heads, nb.homo_heads, "model.blocksparse.homo_heads", why, because);
}

void check_masked_ids(const ModelSection& m, Checker& check) {
  std::vector<int64_t> ids = m.masked_ids;
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end())
    check.require(false, {"model.masked_ids"}, fmt::format("model.masked_ids names {} twice", *twice));
  if (ids.empty() || m.vocab == 0) return;
  check.require(
      ids.back() < m.vocab, {"model.masked_ids", "model.vocab"},
      fmt::format("model.masked_ids names {}; model.vocab = {} has ids 0 to {}", ids.back(), m.vocab, m.vocab - 1));
  check.require(static_cast<int64_t>(ids.size()) < m.vocab, {"model.masked_ids", "model.vocab"},
                "model.masked_ids leaves no token to predict");
}

}  // namespace

void check_before_resolve(const RunSpec& spec, Checker& check) {
  if (spec.model.traits().learned_positions && check.written("model.rope.kind"))
    check.require(spec.model.rope.kind == RopeKind::none, {"model.rope.kind", "model.family"},
                  fmt::format("model.rope.kind = {} is not for family {}, which learns its positions; legal: none",
                              spec.model.rope.kind, spec.model.family));
}

void check_model(const ModelSection& m, Checker& check) {
  check_heads(m, check);
  if (!m.traits().learned_positions || m.rope.kind == RopeKind::none) check_rope(m, check);
  check_family_keys(m, check);
  check_masked_ids(m, check);
}

}  // namespace fp
