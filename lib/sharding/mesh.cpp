#include "sharding/mesh.h"

namespace fp {

Mesh::Mesh(int pp, int dp, int sp, int tp, int world_size, bool two_way)
    : pp_(pp), dp_(dp), sp_(sp), tp_(tp), two_way_(two_way) {
  if (pp < 1 || dp < 1 || sp < 1 || tp < 1 || size() != world_size)
    throw ConfigError(fmt::format("parallel: pipeline {} x data {} x sequence {} x tensor {} = {}, not {} ranks", pp,
                                  dp, sp, tp, size(), world_size));
}

std::vector<int> Mesh::world() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(r);
  return ranks;
}

std::vector<int> Mesh::tensor(int rank) const {
  Coordinate c = at(rank);
  std::vector<int> ranks;
  for (c.tp = 0; c.tp < tp_; ++c.tp) ranks.push_back(rank_of(c));
  return ranks;
}

std::vector<int> Mesh::sequence(int rank) const {
  Coordinate c = at(rank);
  std::vector<int> ranks;
  for (c.sp = 0; c.sp < sp_; ++c.sp) ranks.push_back(rank_of(c));
  return ranks;
}

std::vector<int> Mesh::tokens(int rank) const {
  Coordinate c = at(rank);
  std::vector<int> ranks;
  for (c.dp = 0; c.dp < dp_; ++c.dp)
    for (c.sp = 0; c.sp < sp_; ++c.sp) ranks.push_back(rank_of(c));
  return ranks;
}

std::vector<int> Mesh::data(int rank) const {
  std::vector<int> ranks = tokens(rank);
  if (!two_way_) return ranks;
  Coordinate twin = at(rank);
  twin.pp = pp_ - 1 - twin.pp;
  const std::vector<int> others = tokens(rank_of(twin));
  ranks.insert(twin.pp < at(rank).pp ? ranks.begin() : ranks.end(), others.begin(), others.end());
  return ranks;
}

std::vector<int> Mesh::pipeline(int rank) const {
  Coordinate c = at(rank);
  std::vector<int> ranks;
  for (c.pp = 0; c.pp < pp_; ++c.pp) ranks.push_back(rank_of(c));
  return ranks;
}

}  // namespace fp
