// Matrix products on the compute stream: cuBLASLt on a GPU (gemm.cpp), plain loops on the CPU (tests/cuda_host).
//
// All matrices are row-major: c[m,n] = op(a)[m,k] op(b)[k,n] (+ c), then the epilogue. f32 operands are multiplied in
// f32 (never TF32); bf16 operands accumulate in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace fp::cuda {

class Device;

enum class Epilogue : uint8_t {
  none,
  bias,               // c += vector[n] along the rows
  gelu,               // aux = c (after the bias, if vector is given), c = gelu(c), tanh form
  gelu_backward,      // c = c * gelu'(aux)
  bias_gradient_of_a  // vector[m] f32 (set or added to as `add` says) = sums over k of op(a): weight gradient a = dy^T
};

struct GemmCall {
  DType operands = DType::bf16;  // of a, b, bias vector and aux
  DType result = DType::bf16;    // of c: f32, or the operands' type
  bool a_transposed = false;     // a is stored [k,m]
  bool b_transposed = false;     // b is stored [n,k]
  bool add = false;              // c += product (f32 c only)
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  Epilogue epilogue = Epilogue::none;
  void* vector = nullptr;  // bias in, or bias gradient out
  void* aux = nullptr;     // [m,n]
};

class Gemm {
 public:
  explicit Gemm(Device&);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // Whether run() takes this epilogue with these shapes and addresses; where not, the caller issues the parts. `none`,
  // and `bias` to a result of the operands' type, are always taken, with any m, n, k and alignment.
  bool takes(const GemmCall&) const;
  // The same bits in every run on the same kind of GPU. m, n, k at least 1. InternalError for what takes() denies.
  void run(const GemmCall&);
  // Bytes of device memory this object holds beside its operands (workspace).
  static size_t own_bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
