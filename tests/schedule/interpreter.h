// Runs a lowered schedule for good, with symbols for tensors: what would come out if an executor obeyed it literally.
// Independent of lib/schedule's own ideas of dependencies; the oracle of the verifier.
#pragma once

#include <string>

#include "schedule/lower.h"

namespace fp_test {

// What goes wrong first: a rank that waits for ever, something used that is not there, a sum that is not of each
// micro-batch once, something left over. Empty: the step is right.
std::string interpret(const fp::Schedule&, const fp::LoweringOptions&);

}  // namespace fp_test
