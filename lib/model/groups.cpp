#include "model/groups.h"

namespace fp {

Groups make_groups(World& world, const Mesh& mesh) {
  const int rank = world.rank();
  Groups g;
  g.mesh = mesh;
  g.at = mesh.at(rank);
  g.record = &world.record();
  g.world = world.group("world", mesh.world());
  g.tensor = world.group("tensor", mesh.tensor(rank));
  g.sequence = world.group("sequence", mesh.sequence(rank));
  g.data = world.group("data", mesh.data(rank));
  return g;
}

Groups make_self_groups() {
  const auto self = std::make_shared<World>(0, 1);
  Groups g = make_groups(*self, Mesh());
  g.own_world = self;
  return g;
}

}  // namespace fp
