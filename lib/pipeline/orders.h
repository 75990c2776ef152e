// Generators of the schedule kinds: each returns one rank's list of actions. Requests must be complete and legal
// (complete()). Sources:
//   gpipe                      Huang et al. 2019
//   interleaved                Megatron-LM's interleaved 1F1B, Narayanan et al. 2021
//   zb-h1, zb-h2, zb-v         Qi et al. 2023, "Zero Bubble Pipeline Parallelism"
//   chimera                    Li and Hoefler 2021
//   bitpipe                    Wu et al. 2024
//   zeropp                     Tang et al. 2024
//   dualpipe                   DeepSeek-V3 technical report 2024
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/simulate.h"

namespace fp {

// Builds one rank's list and keeps a queue of the weight gradients that it has still to compute.
class ListWriter {
 public:
  ListWriter(const Placement& placement, int rank) : placement_(placement), rank_(rank) {}

  void forward(int micro_batch, int chunk, int pipe = 0) { add(ActionKind::forward, micro_batch, chunk, pipe); }
  void backward(int micro_batch, int chunk, int pipe = 0) { add(ActionKind::backward, micro_batch, chunk, pipe); }
  // Appends a B and puts its weight gradient into the queue.
  void backward_input(int micro_batch, int chunk, int pipe = 0) {
    add(ActionKind::backward_input, micro_batch, chunk, pipe);
    owed_.push_back(list_.back());
    owed_.back().kind = ActionKind::backward_weight;
  }
  // Appends the oldest weight gradient of the queue.
  void backward_weight() { list_.push_back(owed_[paid_++]); }
  void backward_weight(int micro_batch, int chunk) { add(ActionKind::backward_weight, micro_batch, chunk, 0); }
  void all_backward_weights() {
    while (paid_ < owed_.size()) backward_weight();
  }
  // Marks the last forward action as a pair with the backward action that is appended next.
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

// Properties of a schedule kind.
struct ScheduleKind {
  PipelineSchedule kind;
  Order order = nullptr;    // nullptr: wave, which generates the lists of all ranks together
  int chunks = 1;           // used when the request names none
  bool any_chunks = false;  // whether the request may name another number
  bool zigzag = false, two_way = false;
  bool split = false;  // weight gradients are separate actions (W) already
};

const ScheduleKind& properties_of(PipelineSchedule);

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
// Generates the lists of all ranks by a replay with these times.
std::vector<std::vector<Action>> wave_orders(const ScheduleRequest&, const Placement&, const Costs&);

// Returns the peak number of live (stage, micro-batch) pairs of a list.
int peak_chunks(const std::vector<Action>& list);
// Throws ConfigError: the kind needs a memory cap of `least` chunks or more.
[[noreturn]] void refuse_cap(std::string_view kind, int cap, int least);

}  // namespace fp
