#include "train/universal_patterns.h"

#include <algorithm>

#include "config/load.h"
#include "model/architecture.h"

namespace fp {
namespace {

UniversalPattern pattern_of(const ParamTable& table, const Param& p, bool on_two_stages) {
  UniversalPattern u;
  u.on_two_stages = on_two_stages;
  for (const Piece& piece : p.partition.pieces)
    if (piece.padded > piece.extent) {
      u.vocabulary = piece.extent;
      u.padded = piece.padded;
    }
  if (table.tp() == 1) return u;
  u.kind = p.partition.dim < 0 ? UniversalPattern::Kind::replicated : UniversalPattern::Kind::fragment;
  u.dim = p.partition.dim;
  for (const Piece& piece : p.partition.pieces) {
    const int64_t sharers = piece.copies ? (table.tp() + piece.units - 1) / piece.units : 1;
    u.sub_fragments.push_back(piece.extent);
    u.copies.push_back(static_cast<int>(sharers));
  }
  return u;
}

}  // namespace

std::string UniversalPattern::text() const {
  std::string s = kind == Kind::unique       ? "unique"
                  : kind == Kind::replicated ? "replicated"
                                             : fmt::format("fragment dim {}", dim);
  if (sub_fragments.size() > 1) s += fmt::format(" in {}", fmt::join(sub_fragments, "+"));
  if (std::ranges::any_of(copies, [](int n) { return n > 1; })) s += ", with copies";
  if (padded > 0) s += fmt::format(", vocabulary {} padded to {}", vocabulary, padded);
  if (on_two_stages) s += ", on the first and last stage";
  return s;
}

std::map<std::string, UniversalPattern> universal_patterns(const Checkpoint& c) {
  const Mesh& mesh = c.manifest().mesh;
  ModelSection model;
  ParamTable table(mesh.tp());
  try {
    model = parse_stored_spec(c.state().config_yaml, CheckpointManifest::kConfigName).model;
    if (model.vocab == 0) return {};
    declare_parameters(model, table);
  } catch (const ConfigError&) {
    return {};
  }
  if (!c.mismatches(table).empty()) return {};
  // A rank with only the LM head holds a copy of the weights tied to the embedding.
  ParamTable head(mesh.tp(), 0, 1, 0, {false, true, std::vector<bool>(static_cast<size_t>(model.layers))});
  declare_parameters(model, head);
  std::map<std::string, UniversalPattern> patterns;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
    patterns[table[id].name] = pattern_of(table, table[id], mesh.pp() > 1 && head[id].copy);
  return patterns;
}

}  // namespace fp
