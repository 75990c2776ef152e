// Counting world: moves nothing and computes nothing. The model code in it is the dry run of one rank.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "comm/comm.h"

namespace fp {

// Is told of every communication of the rank, in order: what gives each its time.
class CommObserver {
 public:
  virtual ~CommObserver() = default;
  // One begins, among these world ranks, of which each sends so many bytes. What comes back is for waited().
  virtual double started(CommKind, const std::string& group, std::span<const int> ranks, int64_t sent) = 0;
  // The rank goes on only when it is over.
  virtual void waited(double) = 0;
};

// Counts a rank's groups and pairs that carry tensors. A real world connects each when it is first used.
struct Communicators {
  int groups = 0, pairs = 0;
};

class CountingWorld : public World {
 public:
  using World::World;
  void observe(CommObserver* observer) { observer_ = observer; }  // null: nobody
  CommObserver* observer() const { return observer_; }
  // Host memory that a world which sums on the host (mpi) holds at the most, beside the tensors.
  size_t scratch_peak() const { return peak_; }
  const Communicators& communicators() const { return communicators_; }  // those that were used so far

  void connected(bool pair) { ++(pair ? communicators_.pairs : communicators_.groups); }

  void take(size_t bytes) { peak_ = std::max(peak_, now_ += bytes); }
  void give_back(size_t bytes) { now_ -= bytes; }

 private:
  CommObserver* observer_ = nullptr;
  size_t now_ = 0, peak_ = 0;
  Communicators communicators_;
};

// Rank `rank` of a world of any size. Traffic is counted. Host values come back as if all ranks had given the same.
std::unique_ptr<CountingWorld> make_counting_world(int rank, int size);

}  // namespace fp
