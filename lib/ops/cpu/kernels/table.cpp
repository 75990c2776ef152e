#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {

const Kernels& table() {
#define FP_KERNEL(name, result, arguments) .name = name,
  static constexpr Kernels kTable{.isa = Isa::FP_ISA, FP_CPU_KERNELS(FP_KERNEL)};
#undef FP_KERNEL
  return kTable;
}

}  // namespace fp::cpu::FP_ISA
