// Roles: the classes of ranks of a mesh that differ in memory and work.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "sharding/mesh.h"

namespace fp {

// Ranks of one role need the same memory and do the same amount of work, on different tokens, heads and rows. Ranks
// with different data indices have the same role; tensor and sequence indices differ only if heads, columns or the
// vocabulary do not divide evenly. Each pipeline rank has its own roles.
class Roles {
 public:
  // The spec must be resolved and its vocabulary known.
  Roles(const RunSpec&, const Mesh&);

  int count() const { return static_cast<int>(ranks_.size()); }
  // Returns the first rank with the role; its data index is 0.
  int rank(int role) const { return ranks_[static_cast<size_t>(role)]; }
  int of(int rank) const;
  // Returns the tensor and sequence share of a role: equal for roles that differ only in the pipeline rank.
  int share(int role) const { return role % distinct_; }

 private:
  Mesh mesh_;
  std::vector<int> shares_;  // by sequence and tensor index: index of the distinct share
  std::vector<int> ranks_;   // by role: pipeline rank x distinct shares
  int distinct_ = 0;
};

}  // namespace fp
