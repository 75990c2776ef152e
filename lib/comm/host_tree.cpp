#include "comm/host_tree.h"

#include <algorithm>

namespace fp {

// The parent of a place is the place without its lowest set bit.
HostTree::HostTree(int rank, int size, int root) : first_((rank - root + size) % size), count_(size - first_) {
  const auto rank_at = [&](int place) { return (place + root) % size; };
  const int lowest = first_ & -first_;
  if (first_ > 0) {
    parent_ = rank_at(first_ - lowest);
    count_ = std::min(lowest, size - first_);
  }
  for (int step = 1; step < count_; step *= 2)
    children_.push_back({rank_at(first_ + step), first_ + step, std::min(step, count_ - step)});
}

}  // namespace fp
