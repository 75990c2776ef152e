// Executes a lowered schedule literally, as an executor would, with hashes in place of tensors. It does not use
// lib/pipeline's model of dependencies, so it serves as the oracle for the verifier.
#pragma once

#include <string>

#include "pipeline/lower.h"

namespace fp::test {

// Returns the first error: a rank that waits for ever, a missing tensor, a reduction that does not cover each
// micro-batch once, something left over. Empty if the step is correct.
std::string interpret(const fp::Schedule&, const fp::LoweringOptions&);

}  // namespace fp::test
