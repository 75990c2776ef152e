// The kernel functions that are compiled for every instruction set; table.cpp collects them into a Kernels table.
#pragma once

#include "ops/cpu/kernels.h"

namespace fp::cpu::FP_ISA {

#define FP_KERNEL(name, result, arguments) result name arguments;
FP_CPU_KERNELS(FP_KERNEL)
#undef FP_KERNEL

const Kernels& table();

}  // namespace fp::cpu::FP_ISA
