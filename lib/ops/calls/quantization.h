// Calls that quantize what is sent between ranks (ops/block_format.h), and sum what has arrived: the parts of ZeRO++'s
// collectives (Wang et al. 2023, arXiv:2306.10209). Results have the same bits on every backend.
#pragma once

#include "ops/block_format.h"
#include "ops/calls/call.h"

namespace fp::calls {

// Row i of packed u8 [R, packed_bytes(n)] = row (i % outer) * inner + i / outer of x [R,n] (f32 or bf16), quantized,
// where outer = R / inner. inner = 1 keeps the order. Otherwise x has the rows of `outer` nodes with `inner` ranks each
// one after the other, and packed those of one rank of each node: the order of an exchange within nodes.
// With a base [R,n] (f32 or bf16) the difference x - base is quantized.
struct Quantize {
  Tensor packed, x;
  BlockFormat format;
  int64_t inner = 1;
  Tensor base = {};
};

// y [S,n] (f32 or bf16) = factor * the sum over p of the rows p of parts u8 [P,S,packed_bytes(n)], in f32, in order,
// and rounded once; Write::add: y + that, likewise. P = 1: dequantizes.
struct SumQuantized {
  Tensor y, parts;
  BlockFormat format;
  float factor = 1;
  Write write = Write::set;
};

// The same with the sums (factor 1) quantized again: packed u8 [S, packed_bytes(columns)] in the format `to`. Both
// formats are rotated, or neither.
struct RequantizeSums {
  Tensor packed, parts;
  int64_t columns;
  BlockFormat from, to;
};

}  // namespace fp::calls
