// Where a product kernel (gemm_lanes.h, gemm_tiles.h) puts its sums, and the part of c that it computes.
#pragma once

#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {

// Destination of a block of c and what is added to it.
struct Destination {
  float* sums;  // f32 destination or running sums; null: bf16 only
  int64_t ld_sums;
  bool add;       // add to sums instead of overwriting them
  bf16* rounded;  // bf16 destination, once the sums are complete; null: none
  int64_t ld;
  const float* bias;  // null: none
};

// Rows of c in one panel of columns.
struct PanelRows {
  int64_t begin, end;       // end: the last one that this work item may write, plus 1
  int64_t needed;           // rows from here to `end` need not be computed
  int64_t column, columns;  // first column of the panel; columns from it to the last of c
  const Word* next_b;       // the packed panel that this thread probably multiplies next; null: it is packed first
};

}  // namespace fp::cpu::FP_ISA
