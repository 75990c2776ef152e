#include "cuda/device/launch.h"
#include "cuda/device/mma.h"
#include "cuda_host/matrix_kernels.h"
#include "cuda_host/memory.h"

namespace fp::cuda::planted {
namespace {

template <bool Transposed>
__global__ void multiply_kernel(float* c, const bf16* a, const bf16* b) {
  FP_SHARED(bf16, tile_a, 256);
  FP_SHARED(bf16, tile_b, 128);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) tile_a[i] = a[i];
  for (int i = lane; i < 128; i += 32) tile_b[i] = b[i];
  __syncwarp();
  uint32_t fa[4], fb[4];
  // Quarters of a in the order of the fragment: rows 0-7, rows 8-15, then the right half.
  ldmatrix_x4<false>(fa, tile_a + (lane % 16) * 16 + lane / 16 * 8);
  // b as rows [16][8], or as columns [8][16]; only two of the four matrices are used.
  const int row = lane % 16;
  ldmatrix_x4<Transposed>(fb, Transposed ? tile_b + row * 8 : tile_b + row % 8 * 16 + row / 8 * 8);
  float sum[4] = {};
  mma_16816(sum, fa, fb[0], fb[1]);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

}  // namespace

std::string multiply(const float (&a)[16][16], const float (&b)[16][8], float (&c)[16][8], bool transposed) {
  const auto da = host::allocate(512), db = host::allocate(256), dc = host::allocate(512);
  auto *pa = reinterpret_cast<bf16*>(da.get()), *pb = reinterpret_cast<bf16*>(db.get());
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) pa[i * 16 + k] = bf16(a[i][k]);
    for (int j = 0; j < 8; ++j) pb[transposed ? i * 8 + j : j * 16 + i] = bf16(b[i][j]);
  }
  host::host_wrote(pa, 512);
  host::host_wrote(pb, 256);
  auto* pc = reinterpret_cast<float*>(dc.get());
  const bf16 *ca = pa, *cb = pb;
  transposed ? launch<multiply_kernel<true>>({1, 32}, nullptr, pc, ca, cb)
             : launch<multiply_kernel<false>>({1, 32}, nullptr, pc, ca, cb);
  std::memcpy(c, pc, sizeof c);
  return host::take_problems();
}

}  // namespace fp::cuda::planted
