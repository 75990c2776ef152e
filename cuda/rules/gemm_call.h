// GemmCall: a matrix product as the ops request it.
//
// All matrices are row-major: c[m,n] = op(a)[m,k] op(b)[k,n] (+ c), then the epilogue. f32 operands are multiplied in
// f32 (never TF32); bf16 operands accumulate in f32.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace fp::cuda {

enum class Epilogue : uint8_t {
  none,
  bias,          // c += vector[n] along the rows
  gelu,          // aux = c (after the bias, if vector is given), c = gelu(c), tanh form
  gelu_backward  // c = c * gelu'(aux)
};

struct GemmCall {
  DType operands = DType::bf16;  // type of a, b, bias vector and aux
  DType result = DType::bf16;    // type of c: f32, or the operands' type
  bool a_transposed = false;     // a is stored [k,m]
  bool b_transposed = false;     // b is stored [n,k]
  bool add = false;              // c += product (f32 c only)
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  Epilogue epilogue = Epilogue::none;
  const void* vector = nullptr;  // the bias
  void* aux = nullptr;           // [m,n]
};

}  // namespace fp::cuda
