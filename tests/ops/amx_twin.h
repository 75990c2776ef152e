// The kernels of AMX on tiles in memory, for any CPU.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/kernels/table_amx.h"

namespace fp::test {

inline const cpu::Kernels& amx_twin() {
  static const cpu::Kernels kTable = [] {
    cpu::Kernels k = cpu::kernels(Isa::baseline);
    cpu::amx_twin::use_tiles(k);
    return k;
  }();
  return kTable;
}

}  // namespace fp::test
