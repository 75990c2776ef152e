// Mesh: how ranks are arranged. A small pure value, passed around, never global.
// Order of dimensions (pp, dp, sp, tp), tp fastest: rank = ((pp_i * dp + dp_i) * sp + sp_i) * tp + tp_i.
#pragma once

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
  Mesh(int pp, int dp, int sp, int tp, int world_size) : pp_(pp), dp_(dp), sp_(sp), tp_(tp) {
    if (pp < 1 || dp < 1 || sp < 1 || tp < 1 || size() != world_size)
      throw ConfigError(
          fmt::format("parallel: pipeline {} x data {} x sequence {} x tensor {} = {} ranks, but this run has {}", pp,
                      dp, sp, tp, size(), world_size));
  }

  int pp() const { return pp_; }
  int dp() const { return dp_; }
  int sp() const { return sp_; }
  int tp() const { return tp_; }
  int size() const { return pp_ * dp_ * sp_ * tp_; }
  Coordinate at(int rank) const {
    return {rank / (dp_ * sp_ * tp_), rank / (sp_ * tp_) % dp_, rank / tp_ % sp_, rank % tp_};
  }
  int rank_of(const Coordinate& c) const { return ((c.pp * dp_ + c.dp) * sp_ + c.sp) * tp_ + c.tp; }

 private:
  int pp_ = 1, dp_ = 1, sp_ = 1, tp_ = 1;
};

}  // namespace fp
