#include "model/groups.h"

#include <algorithm>

namespace fp {

Groups make_groups(World& world, const Mesh& mesh) {
  const int rank = world.rank();
  Groups g;
  g.comm_world = &world;
  g.mesh = mesh;
  g.at = mesh.at(rank);
  g.record = &world.record();
  g.world = world.host_group("world", mesh.world());
  g.tensor = world.group("tensor", mesh.tensor(rank));
  g.sequence = world.group("sequence", mesh.sequence(rank));
  g.data = world.group("data", mesh.data(rank));
  g.tokens = mesh.two_way() ? world.host_group("tokens", mesh.tokens(rank)) : g.data;
  g.pipeline = world.host_group("pipeline", mesh.pipeline(rank));
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

// Returns the number of nodes that the ranks of a data group are on, a node's one after the other; 0 if nodes have
// different numbers of them.
size_t count_nodes(const std::vector<int>& data, const NodeMap& nodes) {
  size_t count = 0, first = 0, each = 0;  // `first`: of the node
  for (size_t i = 1; i <= data.size(); ++i) {
    if (i < data.size() && nodes.node_of(data[i]) == nodes.node_of(data[first])) continue;
    if (count++ == 0) each = i;
    if (i - first != each) return 0;
    first = i;
  }
  return count;
}

void add_groups_by_nodes(Groups& g) {
  const int rank = g.mesh.rank_of(g.at);
  const std::vector<std::vector<int>> by_node = data_by_node(g.mesh, g.comm_world->nodes(), rank);
  if (by_node.empty()) return;
  const auto mine = std::ranges::find_if(by_node, [rank](const auto& n) { return std::ranges::count(n, rank) > 0; });
  const auto place = static_cast<size_t>(std::ranges::find(*mine, rank) - mine->begin());
  g.data_in_node = by_node.size() == 1 ? g.data : g.comm_world->group("data_in_node", *mine);
  if (by_node.size() == 1) return;
  std::vector<int> across;
  for (const std::vector<int>& n : by_node) across.push_back(n[place]);
  g.data_across_nodes = g.comm_world->group("data_across_nodes", across);
}

}  // namespace

Groups complete_groups(const Groups& groups, const ParamTable& table, bool sharded, bool by_nodes) {
  Groups g = groups;
  if (by_nodes) add_groups_by_nodes(g);
  std::vector<int> sharers;
  for (const int i : table.copy_sharers()) sharers.push_back(g.mesh.rank_of({g.at.pp, g.at.dp, g.at.sp, i}));
  g.copies = g.comm_world->group("kv_copies", sharers);
  const std::vector<int> pipeline = g.mesh.pipeline(g.mesh.rank_of(g.at));
  if (table.slots_differ()) g.matrices = group_of_matrices(g, sharded);
  if (table.divided_unit() >= 0) g.ends = g.comm_world->group("ends", {pipeline.front(), pipeline.back()});
  return g;
}

std::vector<std::vector<int>> data_by_node(const Mesh& mesh, const NodeMap& nodes, int rank) {
  if (nodes.nodes() > 1 && nodes.ranks_per_node() == 0) return {};
  const std::vector<int> data = mesh.data(rank);
  const size_t count = count_nodes(data, nodes), each = count > 0 ? data.size() / count : 0;
  if (count == 0 || (count > 1 && each == 1)) return {};
  // All must sum in the same way: tensor ranks hold copies, and a checkpoint has the errors of all.
  for (int p = 0; p < mesh.pp(); ++p)
    for (int t = 0; t < mesh.tp(); ++t)
      if (count_nodes(mesh.data(mesh.rank_of({p, 0, 0, t})), nodes) != count) return {};
  std::vector<std::vector<int>> by_node;
  for (auto first = data.begin(); first != data.end(); first += static_cast<std::ptrdiff_t>(each))
    by_node.emplace_back(first, first + static_cast<std::ptrdiff_t>(each));
  return by_node;
}

int ranks_that_share_errors(const Mesh& mesh, const NodeMap& nodes) {
  const std::vector<std::vector<int>> by_node = data_by_node(mesh, nodes, 0);
  return by_node.size() > 1 ? static_cast<int>(by_node.front().size()) : 1;
}

Groups make_self_groups() {
  const auto self = std::make_shared<World>(0, 1);
  Groups g = make_groups(*self, Mesh());
  g.own_world = self;
  return g;
}

}  // namespace fp
