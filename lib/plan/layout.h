// The arrangement of a run's ranks: what a spec asks for, checked against the ranks there are and what its model can be
// cut into.
#pragma once

#include "config/run_spec.h"
#include "plan/mesh.h"

namespace fp {

// Resolves parallel.data = 0 in `spec` and returns the mesh. ConfigError with key, value and what would be legal: keys
// are left to the planner; the degrees do not multiply to `ranks`; fewer heads than ranks to share them; a batch that
// does not divide.
Mesh arrange(RunSpec& spec, int ranks);

// "tensor 2 x sequence 2 x data 2, ZeRO 1".
std::string describe(const ParallelSection&);

}  // namespace fp
