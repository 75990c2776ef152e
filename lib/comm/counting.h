// CountingWorld: counts the traffic of one rank; moves and computes nothing. A dry run of a rank is the model code in
// this world.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "comm/comm.h"

namespace fp {

// Receives every communication of the rank, in order. The time model implements it.
class CommObserver {
 public:
  virtual ~CommObserver() = default;
  // A communication begins among these world ranks, of which each sends `sent` bytes, in an all-to-all perhaps as
  // uneven pieces. The result is passed to waited().
  virtual double started(CommKind, const std::string& group, std::span<const int> ranks, int64_t sent,
                         const UnevenPieces&) = 0;
  // The rank waits until that communication has ended.
  virtual void waited(double) = 0;
};

// Number of groups and pairs of a rank that carry tensors. A real world connects each when it is first used.
struct Communicators {
  int groups = 0, pairs = 0;
};

class CountingWorld : public World {
 public:
  using World::World;
  void observe(CommObserver* observer) { observer_ = observer; }  // null: no observer
  CommObserver* observer() const { return observer_; }
  // Peak host memory beside the tensors, in bytes, of a world that sums on the host (mpi).
  size_t scratch_peak() const { return peak_; }
  const Communicators& communicators() const { return communicators_; }  // those used so far
  // Sets what queues_collectives() answers; before, that of a world that sums on the host.
  void set_queues_collectives(bool yes) { queues_collectives_ = yes; }
  bool queues_collectives() const override { return queues_collectives_; }

  // Called by the groups: one is used for the first time; scratch is allocated; scratch is freed.
  void connected(bool pair) { ++(pair ? communicators_.pairs : communicators_.groups); }
  void allocate_scratch(size_t bytes) { peak_ = std::max(peak_, now_ += bytes); }
  void free_scratch(size_t bytes) { now_ -= bytes; }

 private:
  CommObserver* observer_ = nullptr;
  size_t now_ = 0, peak_ = 0;
  bool queues_collectives_ = false;
  Communicators communicators_;
};

// Creates rank `rank` of a world of any size. Host values come back as if all ranks had given the same.
std::unique_ptr<CountingWorld> make_counting_world(int rank, int size);

}  // namespace fp
