// From compute actions to what an executor runs: messages, weights and gradient sums become actions too.
#pragma once

#include "schedule/simulate.h"

namespace fp {

struct LoweringOptions {
  Costs costs = {};         // the order in which messages are begun follows these times
  int sends_in_flight = 2;  // of a channel (pipe, stage, direction): send k waits for send k - this many
  bool gather = false;      // each data rank keeps a shard of the weights: gather and free are put in
  int resident = 2;         // gather: stages a rank holds whole at a time, at most
  int reduce_every = 0;     // weight gradients of a stage between two of its sums; 0: one sum a step
};

// Adds messages (of every edge between two ranks; none within one), reductions and, on demand, gathers.
//   send stands after the action that makes the message; receive before the action during which, by the given times, it
//   begins (or before the next, where the rank waits): posted ahead, so that it travels beside the computation
//   gather and free: as few gathers as `resident` allows, each as early as that allows, free after the last use
//   reduce stands right after the last W or D that it covers, before its message; but one sum a step of a two-way
//   schedule stands where both ranks that hold the stage have come to a wait, or at the end: there both sum it up
// Gathers and reductions of ranks that share stages come in the same order if their lists are mirror images, as all
// kinds' are. The lists of all ranks merge into one order in which whatever an action waits for stands earlier.
// Pairs stay next to each other where costs.pairs_are_one; otherwise they come apart and are pairs no more.
Schedule lower(const Schedule& computed, const LoweringOptions&);

// Whether there is more in it than compute actions.
bool is_lowered(const Schedule&);
// Whether there are backward passes in it, or forward passes alone.
bool trains(const Schedule&);

}  // namespace fp
