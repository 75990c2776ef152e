// Lowering: adds the communication to a schedule of compute actions, so that an executor can run it. Messages, weight
// gathers and gradient reductions become actions too.
#pragma once

#include "pipeline/simulate.h"

namespace fp {

struct LoweringOptions {
  Costs costs = {};              // times that decide in which order messages start
  int sends_in_flight = 2;       // per channel (pipe, stage, direction): send k waits for send k - sends_in_flight
  bool gather = false;           // each data rank keeps a shard of the weights: add gather and free actions
  int resident = 2;              // with `gather`: maximum number of stages that a rank holds gathered at a time
  bool w_needs_weights = false;  // with `gather`: W recomputes with the weights (memory.mlp_tile_tokens)
  int reduce_every = 0;          // weight gradients of a stage per reduction; 0: one reduction per step
};

// Adds messages (for every edge between two ranks, none within a rank), reductions and, with `gather`, gathers.
//   A send follows the action that produces the message. Its receive stands before the action during which, by the
//   given times, the message starts (or before the next action, where the rank waits), so that it is posted early and
//   the transfer overlaps the computation.
//   There are as few gathers as `resident` allows, each as early as that allows; free follows the last use.
//   A reduce stands right after the last W or D that it covers, before that action's message. Only when a two-way
//   schedule reduces once per step does it stand where both ranks that hold the stage wait, or at the end, since both
//   take part in the sum.
// Messages from one rank to another, whatever their stages, are received in the order in which they are sent.
// Ranks that share stages gather and reduce in the same order if their lists are mirror images, as for all kinds here.
// The lists of all ranks can be merged into one order in which everything that an action waits for stands earlier.
// Pairs stay adjacent when costs.pairs_are_one; otherwise they are separated and no longer marked as pairs.
Schedule lower(const Schedule& computed, const LoweringOptions&);

// Whether the schedule has other than compute actions.
bool is_lowered(const Schedule&);
// Whether the schedule has backward passes.
bool trains(const Schedule&);

}  // namespace fp
