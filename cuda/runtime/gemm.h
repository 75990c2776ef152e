// Matrix products on the compute stream: cuBLASLt on a GPU (gemm.cpp), plain loops on the CPU (tests/cuda_host).
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/rules/gemm_call.h"

namespace fp::cuda {

class Device;

class Gemm {
 public:
  explicit Gemm(Device&);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // Returns whether run() supports this epilogue with these shapes and addresses; if not, the caller issues the parts.
  // `none`, and `bias` to a result of the operands' type, are always supported, with any m, n, k and alignment.
  bool supports(const GemmCall&) const;
  // Computes the product, with the same bits in every run on the same kind of GPU. m, n and k are at least 1. Throws
  // InternalError when supports() is false.
  void run(const GemmCall&);
  // Bytes of device memory that this object holds beside its operands (workspace).
  static size_t own_bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
