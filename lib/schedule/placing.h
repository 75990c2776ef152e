// Where a rank gathers, frees and sums up stages: between which of its compute actions.
#pragma once

#include "schedule/simulate.h"

namespace fp {

// Of a rank, by its compute actions.
struct Slots {
  explicit Slots(const std::vector<Action>& list) : before(list.size() + 1), after(list.size()) {}
  std::vector<std::vector<Action>> before;  // after what came meanwhile, messages too; at the end: what comes last
  std::vector<std::vector<Action>> after;   // right after it
};
using Placed = std::vector<Slots>;

// As few gathers as `resident` stages at a time allow, and each as early as that allows. W needs no weights.
void place_gathers(const Schedule& computed, int resident, Placed&);

void place_reduces(const Schedule& computed, const Timing&, int every, Placed&);

}  // namespace fp
