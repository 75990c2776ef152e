// Schedule: what each pipeline rank does in a step, in order. Pure data, no communication, no model.
//
// A model is cut into `stages` consecutive parts. A placement says which rank holds which. Two-way placements run two
// pipes over the same ranks in opposite directions: each stage is held twice, by rank r for one pipe and by rank
// p-1-r for the other, so both ranks of such a pair hold the same stages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/action.h"

namespace fp {

struct Placement {
  int ranks = 1;         // p
  int chunks = 1;        // v: stages of a rank that one micro-batch visits
  bool zigzag = false;   // stages run to the last rank and back (V, waves); otherwise they begin anew at the first
  bool two_way = false;  // a second pipe from the last rank to the first
  int stages() const { return ranks * chunks; }
  int pipes() const { return two_way ? 2 : 1; }
  int rank_of(int pipe, int stage) const {
    const int lap = stage / ranks, at = stage % ranks;
    const int down = zigzag && lap % 2 == 1 ? ranks - 1 - at : at;
    return pipe == 0 ? down : ranks - 1 - down;
  }
  // The stage of a rank's chunk 0..v-1 in a pipe.
  int stage_of(int pipe, int rank, int chunk) const {
    const int down = pipe == 0 ? rank : ranks - 1 - rank;
    return chunk * ranks + (zigzag && chunk % 2 == 1 ? ranks - 1 - down : down);
  }
  // All stages whose weights a rank holds, ascending.
  std::vector<int> stages_of(int rank) const;
  bool operator==(const Placement&) const = default;
};

struct Schedule {
  std::string kind;  // "1f1b", or the file it came from
  Placement placement;
  int micro_batches = 0;                   // of a step, over all pipes
  std::vector<std::vector<Action>> ranks;  // each rank's list

  // Of a pipe: two-way schedules deal them evenly.
  int of_pipe() const { return micro_batches / placement.pipes(); }
  // Place of a micro-batch of a pipe among the step's.
  int batch_of(const Action& a) const { return a.pipe * of_pipe() + a.micro_batch; }
};

struct ScheduleRequest {
  std::string kind = "1f1b";
  int ranks = 1;          // p
  int micro_batches = 1;  // m, over all pipes
  int chunks = 0;         // v; 0: the kind's own (1, or 2 where it has several). wave: 2 W
  int group = 0;          // interleaved, interleaved-zb: micro-batches per group; 0: p, or the next more that is equal
  int unit_size = 0;      // zeropp: U; 0: 2 p where that divides m, else p, else m
  int warmup = 0;         // zeropp: k, 1 (less memory) or 2 (no bubble between units); 0: 2 where U >= 2p - 1
  int window = 0;         // wave: micro-batches in flight; 0: 2 p
  bool w_pass = false;    // weight gradients are split off and moved into the bubbles
  int memory_cap = 0;     // w_pass: live chunks a rank; 0: the fused schedule's peak on its worst rank
};

// "gpipe 1f1b interleaved bfs zb-h1 zb-h2 zb-v interleaved-zb chimera bitpipe dualpipe dualpipev zeropp wave"
const std::vector<std::string_view>& schedule_kinds();

// Every 0 replaced by what it stands for. ConfigError with the legal values for what the kind cannot do.
ScheduleRequest complete(const ScheduleRequest&);

// Where a kind puts its stages. ConfigError for an unknown kind, or chunks or ranks it cannot have, with the legal
// ones.
Placement placement_of(const ScheduleRequest&);

// Lists of compute actions only. ConfigError for p, m, v, U that the kind cannot do, with the legal values.
Schedule generate(const ScheduleRequest&);
// Orders that come of a replay (W pass, wave) follow these times instead of F = B = W = 1.
struct Costs;
Schedule generate(const ScheduleRequest&, const Costs&);

// Fused backward passes split into B and W; the order of F and backward actions stays, W fill the waits (shared
// reference: "generic W pass"), but for those too short to be worth it with these times. `cap`: live chunks a rank; 0:
// on each rank what the fused list itself needs there. ConfigError when it gets stuck below that cap.
Schedule split_weight_gradients(const Schedule& fused, const Costs&, int cap);

// Forward passes alone, for evaluation: as many through each pipe of the placement. Ranks that hold the same stages do
// the same at the same place.
Schedule forward_only(const Placement&, int micro_batches);

}  // namespace fp
