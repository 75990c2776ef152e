// Translation of row-major products for a column-major library, the requirements of its fused epilogues, and the key
// under which a plan is cached.
#pragma once

#include "cuda/rules/gemm_call.h"

namespace fp::cuda {

// A row-major matrix is the transpose of the column-major one in the same memory. So c = op(a) op(b) is requested as
// c' = op(b)' op(a)': the library's first operand is our b, its m is our n.
struct StoredMatrix {
  bool transposed = false;  // the library's op()
  int64_t rows = 0, columns = 0, leading = 0;
  bool operator==(const StoredMatrix&) const = default;
};
struct SwappedProduct {
  StoredMatrix first, second, result;  // our b, our a, our c
};
SwappedProduct swapped(const GemmCall&);

// Returns the alignment of an address in bytes: a power of two, at most 256.
uint32_t alignment_of(const void*);

// Returns whether cuBLASLt may fuse this epilogue: bias and aux have the result's type
// (CUBLASLT_MATMUL_DESC_BIAS_POINTER in cublasLt.h), and in bf16 every address and every row of the matrices is 16-byte
// aligned. For other bf16 matrices it takes kernels that round the product before they add the bias (measured:
// cuBLAS 13.0, H200). The accuracy of its tanh is not documented, so gelu is fused in bf16 only.
bool epilogue_fits(const GemmCall&);

// Calls with the same key may share a plan. The key holds everything except the addresses, of which only the alignment
// counts.
struct GemmKey {
  int64_t m = 0, n = 0, k = 0;
  uint64_t flags = 0;       // types, transposes, add, epilogue, whether there is a vector
  uint64_t alignments = 0;  // alignments of a, b, c, vector, aux
  bool operator==(const GemmKey&) const = default;
};
GemmKey key_of(const GemmCall&);
struct GemmKeyHash {
  size_t operator()(const GemmKey&) const;
};

}  // namespace fp::cuda
