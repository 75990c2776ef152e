// Which ranks sum over nodes together.
#include <catch2/catch.hpp>

#include "model/groups.h"

namespace fp::test {
namespace {

using ByNode = std::vector<std::vector<int>>;

struct Case {
  std::string what;
  Mesh mesh;
  NodeMap nodes;
  int rank;
  ByNode by_node;
  int together;
};

TEST_CASE("data groups are divided by node where all of them can be in the same way") {
  const std::vector<Case> cases{
      {"one node", Mesh(1, 4, 1, 1, 4), NodeMap(), 0, {{0, 1, 2, 3}}, 1},
      {"one rank on each node", Mesh(1, 4, 1, 1, 4), NodeMap(4, 1), 0, {}, 1},
      {"two nodes of four", Mesh(1, 8, 1, 1, 8), NodeMap(8, 4), 5, {{0, 1, 2, 3}, {4, 5, 6, 7}}, 4},
      {"the last node is smaller", Mesh(1, 12, 1, 1, 12), NodeMap(12, 8), 0, {}, 1},
      {"tensor ranks within nodes", Mesh(1, 4, 1, 2, 8), NodeMap(8, 4), 1, {{1, 3}, {5, 7}}, 2},
      {"tensor ranks fill nodes", Mesh(1, 4, 1, 2, 8), NodeMap(8, 2), 0, {}, 1},
      {"tensor ranks on two nodes", Mesh(1, 3, 1, 4, 12), NodeMap(12, 6), 0, {}, 1},
      {"sequence ranks count", Mesh(1, 2, 2, 2, 8), NodeMap(8, 4), 6, {{0, 2}, {4, 6}}, 2},
      {"a stage on one and a half nodes", Mesh(2, 3, 1, 1, 6), NodeMap(6, 2), 0, {}, 1},
      {"stages differ", Mesh(3, 4, 1, 1, 12), NodeMap(12, 6), 0, {}, 1},
      {"each stage on two nodes", Mesh(2, 4, 1, 1, 8), NodeMap(8, 2), 6, {{4, 5}, {6, 7}}, 2},
      {"twins of a two-way pipeline", Mesh(2, 2, 1, 1, 4, true), NodeMap(4, 2), 0, {{0, 1}, {2, 3}}, 2},
      {"nodes by turns", Mesh(1, 4, 1, 1, 4), NodeMap(std::vector<std::string>{"a", "b", "a", "b"}), 0, {}, 1},
      {"hosts", Mesh(1, 4, 1, 1, 4), NodeMap(std::vector<std::string>{"b", "b", "a", "a"}), 3, {{0, 1}, {2, 3}}, 2},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CHECK(data_by_node(c.mesh, c.nodes, c.rank) == c.by_node);
    CHECK(ranks_that_share_errors(c.mesh, c.nodes) == c.together);
  }
}

}  // namespace
}  // namespace fp::test
