// Calls that examine a tensor: for non-finite elements, and by sums that verify copies and communication.
#pragma once

#include "ops/calls/call.h"

namespace fp::calls {

// first i32 [rows of x]: column of the first infinite or NaN element of each row of x; -1 when all are finite. x is f32
// or bf16 and has fewer than 2^31 columns.
struct FindNonfinite {
  Tensor first, x;
};

// sums i32 [2] of the bit patterns w_i of x (f32 or bf16), i from 0: sum of w_i and sum of (2i+1) w_i, modulo 2^32.
// Used to compare copies: a change of any one element changes the first sum.
struct BitSums {
  Tensor sums, x;
};

// sums f32 [P,2]: for each of the P equal pieces of x (f32 or bf16) the sum of its elements and the sum of their
// magnitudes, added up in double or in short blocks; non-finite when any element is. Used to verify sums over ranks,
// which are linear.
struct PieceSums {
  Tensor sums, x;
};

}  // namespace fp::calls
