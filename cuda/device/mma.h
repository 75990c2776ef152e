// Tensor-core products of one warp, in PTX and in a CPU version for the tests, with the fragment layouts of the PTX
// manual (sections "Matrix Fragments for mma.m16n8k16" and "ldmatrix"). With g = lane / 4 and t = lane % 4:
//   A 16x16: a[0] (row g, columns 2t, 2t+1), a[1] (row g+8, the same columns),
//            a[2] (row g, columns 2t+8, 2t+9), a[3] (row g+8, the same columns as a[2])
//   B 16x8:  b[0] (rows 2t, 2t+1 of column g), b[1] (rows 2t+8, 2t+9)
//   C 16x8:  c[0], c[1] (row g, columns 2t, 2t+1), c[2], c[3] (row g+8)
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "cuda/device/platform.h"
#include "cuda/device/vector.h"

namespace fp::cuda {

#ifdef FP_CUDA_HOST
namespace host {

struct MmaLane {
  const uint32_t* a;
  const uint32_t* b;
  float* c;
};
inline float half_of(uint32_t word, int high) { return std::bit_cast<float>(high ? word & 0xffff0000u : word << 16); }
void mma_16816(Lanes&);  // all lanes' fragments at once
struct LdmatrixLane {
  const bf16* row;
  uint32_t* out;
  int count;
  bool transposed;
};
void ldmatrix(Lanes&);

}  // namespace host
#endif

// c += a b, bf16 operands, f32 sums.
__device__ __forceinline__ void mma_16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef FP_CUDA_HOST
  const uint32_t b[2] = {b0, b1};
  host::MmaLane mine{a, b, c};
  host::warp_operation(0xffffffffu, "mma_16816", &mine, host::mma_16816);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Loads four 8x8 matrices of 16-bit elements from shared memory. Lane i gives the address of row i % 8 of matrix i / 8
// (16 bytes, aligned) and receives in out[j] the elements 2t and 2t+1 of row g of matrix j; Transposed: of column g.
template <bool Transposed>
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&out)[4], const bf16* row) {
#ifdef FP_CUDA_HOST
  host::LdmatrixLane mine{row, out, 4, Transposed};
  host::warp_operation(0xffffffffu, Transposed ? "ldmatrix_x4.trans" : "ldmatrix_x4", &mine, host::ldmatrix);
#else
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
#endif
}

}  // namespace fp::cuda
