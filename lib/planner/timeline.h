// The clock of a rank that is played without being run: ops one after the other, communication beside them.
#pragma once

#include <map>
#include <string>

#include "comm/counting.h"
#include "planner/costs.h"

namespace fp {

// Watches counting Ops and a counting world. The ranks of a group are taken to arrive together.
class Timeline : public OpObserver, public CommObserver {
 public:
  explicit Timeline(const CostModel& costs) : costs_(&costs) {}

  void called(const OpWork&) override;
  // Communications of a group come one after the other; those of other groups do not hold them up.
  double started(CommKind, const std::string& group, std::span<const int> ranks, int64_t sent) override;
  void waited(double end) override;

  double now() const { return now_; }          // seconds since the start
  double exposed() const { return exposed_; }  // of these, waiting for communication

 private:
  const CostModel* costs_;
  double now_ = 0, exposed_ = 0;
  std::map<std::string, double> busy_until_;
};

// Attaches a timeline for as long as it lives.
class Watch {
 public:
  Watch(Timeline& t, CountingOps& ops, CountingWorld& world) : ops_(ops), world_(world) {
    ops.observe(&t);
    world.observe(&t);
  }
  ~Watch() {
    ops_.observe(nullptr);
    world_.observe(nullptr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  CountingOps& ops_;
  CountingWorld& world_;
};

}  // namespace fp
