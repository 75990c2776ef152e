// Timeline: the clock of a rank in a dry run. Ops run one after the other; communication and copies overlap them, and
// products take longer beside communication.
#pragma once

#include <array>
#include <map>
#include <string>

#include "comm/counting.h"
#include "planner/costs.h"

namespace fp {

// Observes counting ops, their copies, and a counting world. Assumes that the ranks of a group arrive at the same time.
class Timeline : public OpObserver, public CommObserver, public CopyObserver {
 public:
  explicit Timeline(const CostModel& costs) : costs_(&costs) {}

  void called(const OpWork&);
  void ended(std::string_view, std::span<const OpWork> works) override {
    for (const OpWork& w : works) called(w);
  }
  // Communications of one group run one after the other, independent of those of other groups; its host values do not
  // wait for its tensors. Returns the end time.
  double started(CommKind, const std::string& group, std::span<const int> ranks, int64_t sent,
                 const UnevenPieces&) override;
  void waited(double end) override;
  // The copies of a lane run one after the other, beside the ops unless they take the cores of these.
  double copy_started(CopyLane, int64_t bytes, double after) override;
  // The host's ops run one after the other, beside the device's; where the device is the host, in their place.
  double host_op_started(const OpWork&, double after) override;
  void copy_waited(double end) override;

  bool overlaps() const { return costs_->cluster().overlaps; }  // whether communication overlaps ops
  double now() const { return now_; }                           // seconds since the start
  double exposed() const { return exposed_; }                   // part of now(): waiting for communication
  double exposed_copies() const { return exposed_copies_; }     // part of now(): waiting for copies

 private:
  const CostModel* costs_;
  double now_ = 0, exposed_ = 0, exposed_copies_ = 0;
  std::array<double, kLanes> lane_busy_until_{};
  std::map<std::string, double> busy_until_;
  double tensors_until_ = 0;  // when no communication of tensors is under way any more
};

// Attaches a timeline to ops and world for its lifetime.
class Watch {
 public:
  Watch(Timeline& t, CountingOps& ops, CountingWorld& world) : timeline_(t), ops_(ops), world_(world) {
    ops.observe(t);
    ops.copies().observe(&t);
    world.observe(&t);
    world.set_queues_collectives(t.overlaps());
  }
  ~Watch() {
    ops_.stop_observing(timeline_);
    ops_.copies().observe(nullptr);
    world_.observe(nullptr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Timeline& timeline_;
  CountingOps& ops_;
  CountingWorld& world_;
};

}  // namespace fp
