// The orders of the kinds, rank by rank (shared reference, "pipelines"). Requests come here complete and legal.
#pragma once

#include <utility>
#include <vector>

#include "schedule/simulate.h"

namespace fp {

// Writes one rank's list, and remembers which weight gradients it owes.
class ListWriter {
 public:
  ListWriter(const Placement& placement, int rank) : placement_(placement), rank_(rank) {}

  void forward(int micro_batch, int chunk, int pipe = 0) { add(ActionKind::forward, micro_batch, chunk, pipe); }
  void backward(int micro_batch, int chunk, int pipe = 0) { add(ActionKind::backward, micro_batch, chunk, pipe); }
  // Its weight gradient is owed from here on.
  void backward_input(int micro_batch, int chunk, int pipe = 0) {
    add(ActionKind::backward_input, micro_batch, chunk, pipe);
    owed_.push_back(list_.back());
    owed_.back().kind = ActionKind::backward_weight;
  }
  // The weight gradient owed longest.
  void backward_weight() { list_.push_back(owed_[paid_++]); }
  void backward_weight(int micro_batch, int chunk) { add(ActionKind::backward_weight, micro_batch, chunk, 0); }
  void all_backward_weights() {
    while (paid_ < owed_.size()) backward_weight();
  }
  // The last forward and the next backward action may run as one.
  void pair_with_next() { list_.back().paired_with_next = true; }
  std::vector<Action> take() { return std::move(list_); }

 private:
  void add(ActionKind kind, int micro_batch, int chunk, int pipe) {
    list_.push_back({.kind = kind,
                     .pipe = static_cast<uint8_t>(pipe),
                     .stage = placement_.stage_of(pipe, rank_, chunk),
                     .micro_batch = micro_batch});
  }

  Placement placement_;
  int rank_;
  std::vector<Action> list_, owed_;
  size_t paid_ = 0;
};

using Order = std::vector<Action> (*)(const ScheduleRequest&, const Placement&, int rank);

// What all schedules of a kind have in common.
struct ScheduleKind {
  std::string_view name;
  Order order = nullptr;    // nullptr: wave, whose ranks' lists come about together
  int chunks = 1;           // if the request names none ...
  bool any_chunks = false;  // ... which it may
  bool zigzag = false, two_way = false;
  bool split = false;  // weight gradients are actions of their own already
};

// ConfigError where there is none of the request's name.
const ScheduleKind& find_kind(const ScheduleRequest&);

std::vector<Action> gpipe_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> one_f_one_b_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> interleaved_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> breadth_first_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> zb_h1_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> zb_h2_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> zb_v_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> interleaved_zb_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> zeropp_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> chimera_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> bitpipe_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> dualpipe_order(const ScheduleRequest&, const Placement&, int rank);
std::vector<Action> dualpipev_order(const ScheduleRequest&, const Placement&, int rank);
// Of all ranks, by a replay with these times.
std::vector<std::vector<Action>> wave_orders(const ScheduleRequest&, const Placement&, const Costs&);

// Live (stage, micro-batch) pairs of a list at its peak.
int peak_chunks(const std::vector<Action>& list);
[[noreturn]] void refuse_cap(const std::string& kind, int cap, int least);

}  // namespace fp
