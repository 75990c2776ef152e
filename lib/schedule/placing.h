// Where a rank gathers, frees and sums up stages: between which of its compute actions.
#pragma once

#include "schedule/simulate.h"

namespace fp {

// Of each rank: what comes before its compute action number i; at the end of each list: what comes last.
using Placed = std::vector<std::vector<std::vector<Action>>>;

// As few gathers as `resident` stages at a time allow, and each as early as that allows. W needs no weights.
void place_gathers(const Schedule& computed, int resident, Placed&);

void place_reduces(const Schedule& computed, const Timing&, int every, Placed&);

}  // namespace fp
