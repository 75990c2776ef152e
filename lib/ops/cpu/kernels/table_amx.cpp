#include "ops/cpu/kernels/table_amx.h"

#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {

void use_tiles(Kernels& k) {
  k.attention_scratch = attention_scratch;
  k.attention = attention;
  k.attention_backward_scratch = attention_backward_scratch;
  k.attention_backward = attention_backward;
  k.gemm_scratch = gemm_scratch;
  k.gemm = gemm;
  k.multiply_in_registers = multiply_in_registers;
}

}  // namespace fp::cpu::FP_ISA
