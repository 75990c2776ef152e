// What this device can do: the yardstick of MFU where no data sheet gives one.
#pragma once

#include "ops/ops.h"

namespace fp {

// FLOP/s of a large square GEMM in this compute type, the best of a few tries of some tens of milliseconds.
double measure_gemm_rate(Ops&, DType compute);

}  // namespace fp
