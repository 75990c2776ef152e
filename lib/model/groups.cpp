#include "model/groups.h"

namespace fp {

Groups make_groups(World& world, const Mesh& mesh) {
  const int rank = world.rank();
  Groups g;
  g.comm_world = &world;
  g.mesh = mesh;
  g.at = mesh.at(rank);
  g.record = &world.record();
  g.world = world.group("world", mesh.world());
  g.tensor = world.group("tensor", mesh.tensor(rank));
  g.sequence = world.group("sequence", mesh.sequence(rank));
  g.data = world.group("data", mesh.data(rank));
  g.tokens = mesh.two_way() ? world.group("tokens", mesh.tokens(rank)) : g.data;
  g.pipeline = world.group("pipeline", mesh.pipeline(rank));
  return g;
}

namespace {

// Ranks with the same shard are side by side, in the order of their tensor-parallel parts.
std::shared_ptr<Group> group_of_matrices(const Groups& g, bool sharded) {
  if (!sharded || g.data->size() == 1) return g.tensor;
  if (g.tensor->size() == 1) return g.data;
  std::vector<int> ranks;
  for (const int d : g.mesh.data(g.mesh.rank_of(g.at)))
    for (const int t : g.mesh.tensor(d)) ranks.push_back(t);
  return g.comm_world->group("matrices", ranks);
}

}  // namespace

Groups complete_groups(const Groups& groups, const ParamTable& table, bool sharded) {
  Groups g = groups;
  std::vector<int> sharers;
  for (const int i : table.copy_sharers()) sharers.push_back(g.mesh.rank_of({g.at.pp, g.at.dp, g.at.sp, i}));
  g.copies = g.comm_world->group("kv_copies", sharers);
  const std::vector<int> pipeline = g.mesh.pipeline(g.mesh.rank_of(g.at));
  if (table.slots_differ()) g.matrices = group_of_matrices(g, sharded);
  if (table.divided_unit() >= 0) g.ends = g.comm_world->group("ends", {pipeline.front(), pipeline.back()});
  return g;
}

Groups make_self_groups() {
  const auto self = std::make_shared<World>(0, 1);
  Groups g = make_groups(*self, Mesh());
  g.own_world = self;
  return g;
}

}  // namespace fp
