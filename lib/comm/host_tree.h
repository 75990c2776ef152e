// The binomial tree along which host values travel between the ranks of a group. Whatever the root, a rank talks only
// to those that are a power of two away from it, so it needs connections to about 2 log2(size) others, and half of them
// where the root is always the same.
#pragma once

#include <vector>

namespace fp {

class HostTree {
 public:
  // A rank and those below it, which have the places [first, first + count).
  struct Child {
    int rank, first, count;
  };

  HostTree(int rank, int size, int root);

  // Places count from the root on, round the group. This rank and those below it have [first(), first() + count()).
  int first() const { return first_; }
  int count() const { return count_; }
  int parent() const { return parent_; }  // a rank; -1: this is the root
  // The smallest first; the places of all of them follow one upon another behind first().
  const std::vector<Child>& children() const { return children_; }

 private:
  int first_, count_, parent_ = -1;
  std::vector<Child> children_;
};

}  // namespace fp
