// The binomial tree along which host values travel between the ranks of a group. Whatever the root, a rank talks only
// to ranks whose distance is a power of two, so it needs connections to about 2 log2(size) others, and to half as many
// when the root is always the same.
#pragma once

#include <vector>

namespace fp {

class HostTree {
 public:
  // A child and its subtree, which has the places [first, first + count).
  struct Child {
    int rank, first, count;
  };

  HostTree(int rank, int size, int root);

  // The place of a rank is its distance from the root, modulo the group size. This rank's subtree, itself included, has
  // the places [first(), first() + count()).
  int first() const { return first_; }
  int count() const { return count_; }
  int parent() const { return parent_; }  // its rank; -1: this is the root
  // Children, smallest subtree first. Their places are consecutive and begin after first().
  const std::vector<Child>& children() const { return children_; }

 private:
  int first_, count_, parent_ = -1;
  std::vector<Child> children_;
};

}  // namespace fp
