// The tree of host values: every rank is on it once and has few neighbours.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <set>

#include "comm/host_tree.h"

namespace fp::test {
namespace {

std::set<int> peers_of(const fp::HostTree& tree) {
  std::set<int> peers;
  if (tree.parent() >= 0) peers.insert(tree.parent());
  for (const fp::HostTree::Child& c : tree.children()) peers.insert(c.rank);
  return peers;
}

// ceil(log2 size)
int depth_of(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

TEST_CASE("every rank but the root has one parent, and the places of children are consecutive") {
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 24, 33, 1000})
    for (const int root : {0, size / 3, size - 1}) {
      std::vector<int> parents(static_cast<size_t>(size), -1);
      for (int rank = 0; rank < size; ++rank) {
        const fp::HostTree tree(rank, size, root);
        CAPTURE(size, root, rank);
        REQUIRE(tree.first() == (rank - root + size) % size);
        int next = tree.first() + 1;
        for (const fp::HostTree::Child& c : tree.children()) {
          REQUIRE(c.first == next);
          REQUIRE((c.first + root) % size == c.rank);
          REQUIRE(parents[static_cast<size_t>(c.rank)] == -1);
          parents[static_cast<size_t>(c.rank)] = rank;
          REQUIRE(fp::HostTree(c.rank, size, root).count() == c.count);
          next += c.count;
        }
        REQUIRE(next == tree.first() + tree.count());
      }
      for (int rank = 0; rank < size; ++rank)
        REQUIRE(parents[static_cast<size_t>(rank)] == fp::HostTree(rank, size, root).parent());
      CHECK(fp::HostTree(root, size, root).count() == size);
    }
}

TEST_CASE("a rank has log2(size) neighbours for one root, and twice as many for all roots") {
  for (const int size : {2, 3, 24, 64, 1000, 1024}) {
    size_t most = 0, most_of_all_roots = 0;
    for (int rank = 0; rank < size; ++rank) {
      most = std::max(most, peers_of(fp::HostTree(rank, size, 0)).size());
      std::set<int> all;
      for (int root = 0; root < size; ++root) all.merge(peers_of(fp::HostTree(rank, size, root)));
      most_of_all_roots = std::max(most_of_all_roots, all.size());
    }
    CAPTURE(size);
    CHECK(most <= static_cast<size_t>(depth_of(size)));
    CHECK(most_of_all_roots <= static_cast<size_t>(2 * depth_of(size)));
  }
}

}  // namespace
}  // namespace fp::test
