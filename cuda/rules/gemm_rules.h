// How a row-major product is asked of a column-major library, what its fused epilogues demand, and what tells one plan
// from another.
#pragma once

#include "cuda/rules/gemm_call.h"

namespace fp::cuda {

// A row-major matrix is the transpose of the column-major one in the same memory, so c = op(a) op(b) is asked for as
// c' = op(b)' op(a)': the library's first operand is our b, its m is our n.
struct StoredMatrix {
  bool transposed = false;  // op() of the library
  int64_t rows = 0, columns = 0, leading = 0;
  bool operator==(const StoredMatrix&) const = default;
};
struct SwappedProduct {
  StoredMatrix first, second, result;  // our b, our a, our c
};
SwappedProduct swapped(const GemmCall&);

// Bytes an address is a multiple of: a power of two, at most 256.
uint32_t alignment_of(const void*);

// Whether cuBLASLt documents this epilogue for these types and sizes (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD and
// CUBLASLT_MATMUL_DESC_BIAS_POINTER in cublasLt.h): bias and aux have the result's type, aux rows are multiples of 8
// elements, a bias gradient is set, not added to. Its kernels may read the vector and aux 16 bytes at a time, which no
// preference tells the heuristics. How exact its tanh is it does not say: gelu is left to it in bf16 only.
bool epilogue_fits(const GemmCall&);

// Calls with the same key may share a plan: everything but the addresses, of which the alignment counts.
struct GemmKey {
  int64_t m = 0, n = 0, k = 0;
  uint64_t flags = 0;       // types, transposes, add, epilogue, whether there is a vector
  uint64_t alignments = 0;  // of a, b, c, vector, aux
  bool operator==(const GemmKey&) const = default;
};
GemmKey key_of(const GemmCall&);
struct GemmKeyHash {
  size_t operator()(const GemmKey&) const;
};

}  // namespace fp::cuda
