// Mesh: the arrangement of the ranks along the axes pp, dp, sp and tp. A small value that is passed around, never
// global. tp is the fastest axis: rank = ((pp_i * dp + dp_i) * sp + sp_i) * tp + tp_i.
#pragma once

#include <vector>

#include "base/error.h"

namespace fp {

struct Coordinate {
  int pp = 0, dp = 0, sp = 0, tp = 0;
  bool operator==(const Coordinate&) const = default;
};

class Mesh {
 public:
  Mesh() = default;
  // Throws ConfigError if a degree is below 1 or the product is not the world size.
  // `two_way`: pipeline ranks q and pp-1-q hold the same stages (bidirectional schedules).
  Mesh(int pp, int dp, int sp, int tp, int world_size, bool two_way = false);

  int pp() const { return pp_; }
  int dp() const { return dp_; }
  int sp() const { return sp_; }
  int tp() const { return tp_; }
  bool two_way() const { return two_way_; }
  int size() const { return pp_ * dp_ * sp_ * tp_; }
  Coordinate at(int rank) const {
    return {rank / (dp_ * sp_ * tp_), rank / (sp_ * tp_) % dp_, rank / tp_ % sp_, rank % tp_};
  }
  int rank_of(const Coordinate& c) const { return ((c.pp * dp_ + c.dp) * sp_ + c.sp) * tp_ + c.tp; }

  // The groups that a rank belongs to, each ascending.
  std::vector<int> world() const;
  std::vector<int> tensor(int rank) const;    // ranks with the other parts of the same tensors
  std::vector<int> sequence(int rank) const;  // ranks with the other tokens of the same sequences
  std::vector<int> tokens(int rank) const;    // ranks with the other tokens of a step: data x sequence
  std::vector<int> data(int rank) const;      // ranks with the same weights: tokens(), on a two-way mesh also of pp-1-q
  std::vector<int> pipeline(int rank) const;  // ranks with the other stages of the same micro-batches

 private:
  int pp_ = 1, dp_ = 1, sp_ = 1, tp_ = 1;
  bool two_way_ = false;
};

}  // namespace fp
