// Factories of the Ops implementations. Only apps/ and tests/ name concrete backends.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace fp {

// Plain loops, fp32 storage honoured, sums in double: the oracle. Slow.
std::unique_ptr<Ops> make_ref_ops();

// oneDNN GEMMs, OpenMP and vectorised kernels on this CPU.
std::unique_ptr<Ops> make_cpu_ops();

}  // namespace fp
