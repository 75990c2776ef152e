#include "model/groups.h"

namespace fp {

Groups make_groups(World& world, const Mesh& mesh) {
  const int rank = world.rank();
  Groups g;
  g.maker = &world;
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

std::shared_ptr<Group> tensor_subgroup(const Groups& g, const std::string& name, const std::vector<int>& indices) {
  std::vector<int> ranks;
  for (const int i : indices) ranks.push_back(g.mesh.rank_of({g.at.pp, g.at.dp, g.at.sp, i}));
  return g.maker->group(name, ranks);
}

Groups make_self_groups() {
  const auto self = std::make_shared<World>(0, 1);
  Groups g = make_groups(*self, Mesh());
  g.own_world = self;
  return g;
}

}  // namespace fp
