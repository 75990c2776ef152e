// The kernels that use AMX tiles or their twin.
#pragma once

#include "ops/cpu/kernels.h"

namespace fp::cpu {

namespace amx {
// Replaces the kernels that multiply by those on AMX tiles.
void use_tiles(Kernels&);
}  // namespace amx

namespace amx_twin {
// Replaces them by kernels that compute what those on AMX do, on any CPU and slowly.
void use_tiles(Kernels&);
}  // namespace amx_twin

}  // namespace fp::cpu
