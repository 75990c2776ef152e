#include "planner/roles.h"

#include <map>
#include <string>

#include "model/architecture.h"
#include "model/head_exchange.h"

namespace fp {
namespace {

// A text of everything that depends on the tensor and sequence index, in a model of one layer.
std::string share_of(const ModelSection& one_layer, const Mesh& mesh, const Coordinate& at) {
  ParamTable table(mesh.tp(), at.tp, 1, 0);
  declare_parameters(one_layer, table);
  std::string text = fmt::format("{} sharers", table.copy_sharers().size());
  for (const Param& p : table) text += fmt::format("; {}", p.local.str());
  for (const ParamUnit& u : table.units())
    for (const IndexRange& s : table.copied(u)) text += fmt::format("; {}+{}", s.first, s.count);
  const HeadLayout all = make_architecture(one_layer).heads;
  const HeadRanges mine = split_heads(all.heads, all.kv_heads, mesh.tp(), at.tp);
  const HeadLayout layout{mine.heads.count, mine.kv_heads.count, all.head_dim, all.grouped};
  const HeadLayout core = HeadExchange(layout, mesh.sp(), at.sp).core();
  return text + fmt::format("; {} heads, {} kv", core.heads, core.kv_heads);
}

}  // namespace

Roles::Roles(const RunSpec& spec, const Mesh& mesh) : mesh_(mesh) {
  ModelSection one_layer = spec.model;
  one_layer.layers = 1;
  std::map<std::string, int> known;
  std::vector<Coordinate> firsts;
  for (int sp = 0; sp < mesh.sp(); ++sp)
    for (int tp = 0; tp < mesh.tp(); ++tp) {
      const Coordinate at{0, 0, sp, tp};
      const auto [share, added] = known.emplace(share_of(one_layer, mesh, at), static_cast<int>(known.size()));
      if (added) firsts.push_back(at);
      shares_.push_back(share->second);
    }
  distinct_ = static_cast<int>(firsts.size());
  for (int pp = 0; pp < mesh.pp(); ++pp)
    for (const Coordinate& at : firsts) ranks_.push_back(mesh.rank_of({pp, 0, at.sp, at.tp}));
}

int Roles::of(int rank) const {
  const Coordinate at = mesh_.at(rank);
  return at.pp * distinct_ + shares_[static_cast<size_t>(at.sp * mesh_.tp() + at.tp)];
}

}  // namespace fp
