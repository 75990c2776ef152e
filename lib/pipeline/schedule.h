// Schedule: the ordered list of actions of each pipeline rank in a step. Pure data, no communication, no model.
//
// A model is cut into `stages` consecutive parts, and a placement maps each to a rank. Two-way placements run two pipes
// over the same ranks in opposite directions: each stage is held twice, by rank r for one pipe and by rank p-1-r for
// the other, so both ranks of such a pair hold the same stages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "pipeline/action.h"

namespace fp {

struct Placement {
  int ranks = 1;         // p
  int chunks = 1;        // v: stages per rank and pipe
  bool zigzag = false;   // stages run to the last rank and back (V, waves); otherwise they start again at rank 0
  bool two_way = false;  // a second pipe from the last rank to the first
  int stages() const { return ranks * chunks; }
  int pipes() const { return two_way ? 2 : 1; }
  int rank_of(int pipe, int stage) const {
    const int lap = stage / ranks, at = stage % ranks;
    const int down = zigzag && lap % 2 == 1 ? ranks - 1 - at : at;
    return pipe == 0 ? down : ranks - 1 - down;
  }
  // Returns the stage of a rank's chunk (0 to v - 1) in a pipe.
  int stage_of(int pipe, int rank, int chunk) const {
    const int down = pipe == 0 ? rank : ranks - 1 - rank;
    return chunk * ranks + (zigzag && chunk % 2 == 1 ? ranks - 1 - down : down);
  }
  // Returns all stages whose weights a rank holds, ascending.
  std::vector<int> stages_of(int rank) const;
  bool operator==(const Placement&) const = default;
};

struct Schedule {
  std::string kind;  // "1f1b", or the file it came from
  Placement placement;
  int micro_batches = 0;                   // per step, over all pipes
  std::vector<std::vector<Action>> ranks;  // each rank's list

  // Micro-batches per pipe: a two-way schedule splits them evenly.
  int of_pipe() const { return micro_batches / placement.pipes(); }
  // Index of the action's micro-batch among those of the step.
  int batch_of(const Action& a) const { return a.pipe * of_pipe() + a.micro_batch; }
};

struct ScheduleRequest {
  PipelineSchedule kind = PipelineSchedule::one_f_one_b;
  int ranks = 1;          // p
  int micro_batches = 1;  // m, over all pipes
  int chunks = 0;         // v; 0: the kind's default (1, or 2 where it has several). wave: 2 W
  int group = 0;          // interleaved(-zb): micro-batches per group; 0: p, or of floor(m / p) equal groups (-zb)
  int unit_size = 0;      // zeropp: U; 0: 2 p where that divides m, else p, else m
  int warmup = 0;         // zeropp: k, 1 (less memory) or 2 (no bubble between units); 0: 2 where U >= 2p - 1
  int window = 0;         // wave: micro-batches in flight; 0: 2 p
  bool w_pass = false;    // split off the weight gradients and move them into the bubbles
  int memory_cap = 0;     // w_pass: live chunks per rank; 0: the peak of the fused schedule on its worst rank
};

// Returns all kinds in the order of their enumerators.
const std::vector<PipelineSchedule>& schedule_kinds();

// Returns the kind with this name. Throws ConfigError for an unknown name, with the known ones.
PipelineSchedule schedule_kind_named(std::string_view name);

// True if the weight gradients of the kind are separate actions (W) without a W pass.
bool splits_weight_gradients(PipelineSchedule);

// True if a request of the kind may choose its number of chunks.
bool any_chunks(PipelineSchedule);

// Returns the request with every 0 replaced by its default. Throws ConfigError, which lists the legal values, for what
// the kind does not support.
ScheduleRequest complete(const ScheduleRequest&);

// Returns the kind's placement of stages. Throws ConfigError for chunks or ranks that it does not support, with the
// legal values.
Placement placement_of(const ScheduleRequest&);

// Generates a schedule of compute actions only. Throws ConfigError for p, m, v or U that the kind does not support,
// with the legal values.
Schedule generate(const ScheduleRequest&);
// The same; orders found by a replay (W pass, wave) follow these times instead of F = B = W = 1.
struct Costs;
Schedule generate(const ScheduleRequest&, const Costs&);

// Splits fused backward passes into B and W. The order of F and backward actions stays the same; the W fill the waits
// (as in zero bubble schedules, Qi et al. 2023), except those too short to be worth it with these times. `cap`: live
// chunks per rank; 0: on each rank what its fused list needs. Throws ConfigError if the schedule gets stuck with `cap`.
Schedule split_weight_gradients(const Schedule& fused, const Costs&, int cap);

// Generates forward passes alone, for evaluation: the same number through each pipe of the placement. Ranks that hold
// the same stages run them in the same order.
Schedule forward_only(const Placement&, int micro_batches);

}  // namespace fp
