// Arranges the ranks of a run: checks the degrees of parallelism of a run spec against the number of ranks and against
// what its model can be cut into.
#pragma once

#include "config/run_spec.h"
#include "sharding/mesh.h"

namespace fp {

// The command that arranges a run, for advice on how to change the number of its ranks.
enum class ArrangedBy : uint8_t { launch, plan, submit };

// Resolves parallel.data = 0 in `spec` and returns the mesh. Throws ConfigError, with key, value and legal values, if
// keys are left to the planner, the product of the degrees is not `ranks`, there are fewer heads than ranks to split
// them over, or a batch does not divide.
Mesh arrange(RunSpec& spec, int ranks, ArrangedBy = ArrangedBy::launch);
// Throws ConfigError if there are fewer heads than ranks to split them over.
void check_heads(const RunSpec&);
// Whether the section gives every axis one rank and leaves no key to the planner, as one that is empty does.
bool divides_nothing(const ParallelSection&);

// Returns a description such as "tensor 2 x sequence 2 x data 2, ZeRO 1".
std::string describe(const ParallelSection&);

}  // namespace fp
