// Counting world: moves nothing and computes nothing. The model code in it is the dry run of one rank.
#pragma once

#include <algorithm>
#include <memory>

#include "comm/comm.h"

namespace fp {

class CountingWorld : public World {
 public:
  using World::World;
  // Host memory that a world which sums on the host (mpi) holds at the most, beside the tensors.
  size_t scratch_peak() const { return peak_; }

  void take(size_t bytes) { peak_ = std::max(peak_, now_ += bytes); }
  void give_back(size_t bytes) { now_ -= bytes; }

 private:
  size_t now_ = 0, peak_ = 0;
};

// Rank `rank` of a world of any size. Traffic is counted. Host values come back as if all ranks had given the same.
std::unique_ptr<CountingWorld> make_counting_world(int rank, int size);

}  // namespace fp
