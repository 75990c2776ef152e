// Places the gathers, frees and reductions of stages between a rank's compute actions.
#pragma once

#include "pipeline/lower.h"

namespace fp {

// Actions to insert into a rank's list, by the index of its compute actions.
struct Slots {
  explicit Slots(const std::vector<Action>& list) : before(list.size() + 1), after(list.size()) {}
  std::vector<std::vector<Action>> before;  // right before it, after messages inserted there; last entry: at the end
  std::vector<std::vector<Action>> after;   // right after it
};
using Placed = std::vector<Slots>;

// Places as few gathers as possible with at most `resident` stages gathered at a time, each as early as that allows.
void place_gathers(const Schedule& computed, const LoweringOptions&, Placed&);

// Places a reduction of each stage after every `every` of its weight gradients and after the last. 0: once per step,
// and for two-way schedules where both ranks that hold the stage wait (lower.h).
void place_reduces(const Schedule& computed, const Timing&, int every, Placed&);

}  // namespace fp
