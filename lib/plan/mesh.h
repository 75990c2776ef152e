// Mesh: how ranks are arranged. A small pure value, passed around, never global.
// Order of dimensions (pp, dp, sp, tp), tp fastest: rank = ((pp_i * dp + dp_i) * sp + sp_i) * tp + tp_i.
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
  // ConfigError when a degree is below 1 or the product is not the world size.
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

  // The groups of a rank, by what they are for, each ascending.
  std::vector<int> world() const;
  std::vector<int> tensor(int rank) const;    // hold the other cuts of my tensors
  std::vector<int> sequence(int rank) const;  // hold the other tokens of my sequences
  std::vector<int> tokens(int rank) const;    // see the other tokens of a step: data x sequence
  std::vector<int> data(int rank) const;  // hold my weights: the same, and those of pp-1-q where the mesh is two-way
  std::vector<int> pipeline(int rank) const;  // run the other stages of my micro-batches

 private:
  int pp_ = 1, dp_ = 1, sp_ = 1, tp_ = 1;
  bool two_way_ = false;
};

}  // namespace fp
