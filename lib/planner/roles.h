// Which ranks of a mesh differ in what they hold and do.
#pragma once

#include <vector>

#include "config/run_spec.h"
#include "plan/mesh.h"

namespace fp {

// Ranks of one role take the same memory and do the same work, but for which tokens, heads and rows these are about:
// data indices never differ, tensor and sequence indices only where heads, columns or the vocabulary do not divide.
// Pipeline ranks are roles of their own.
class Roles {
 public:
  // Of a resolved spec with its vocabulary.
  Roles(const RunSpec&, const Mesh&);

  int count() const { return static_cast<int>(ranks_.size()); }
  // The first rank that has the role: data index 0, and of equal shares the one that rounds up.
  int rank(int role) const { return ranks_[static_cast<size_t>(role)]; }
  int of(int rank) const;
  // The same for roles that differ in the pipeline rank alone.
  int share(int role) const { return role % distinct_; }

 private:
  Mesh mesh_;
  std::vector<int> shares_;  // by sequence and tensor index: which of the distinct shares
  std::vector<int> ranks_;   // by role: pipeline rank x distinct shares
  int distinct_ = 0;
};

}  // namespace fp
