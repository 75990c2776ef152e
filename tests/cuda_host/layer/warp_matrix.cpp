// The CPU version of cuda/device/mma.h: gathers the fragments of 32 lanes into matrices, and scatters them again.
#include "cuda/device/mma.h"
#include "cuda_host/memory.h"

namespace fp::cuda::host {

void mma_16816(Lanes& lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& l = *static_cast<MmaLane*>(lanes.argument[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      for (int h = 0; h < 2; ++h) a[g + 8 * (i % 2)][2 * t + 8 * (i / 2) + h] = half_of(l.a[i], h);
    for (int i = 0; i < 2; ++i)
      for (int h = 0; h < 2; ++h) b[2 * t + 8 * i + h][g] = half_of(l.b[i], h);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& l = *static_cast<MmaLane*>(lanes.argument[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 16; ++k) l.c[i] += a[g + 8 * (i / 2)][k] * b[k][2 * t + i % 2];
  }
}

void ldmatrix(Lanes& lanes) {
  const auto at = [&](int lane) -> LdmatrixLane& { return *static_cast<LdmatrixLane*>(lanes.argument[lane]); };
  for (int i = 0; i < 8 * at(0).count; ++i) {
    check_alignment(at(i).row, 16);
    touch(at(i).row, 16, Access::read);
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < at(lane).count; ++j) {
      const int g = lane / 4, t = lane % 4;
      const bool transposed = at(lane).transposed;
      const uint32_t low = transposed ? at(8 * j + 2 * t).row[g].bits : at(8 * j + g).row[2 * t].bits;
      const uint32_t high = transposed ? at(8 * j + 2 * t + 1).row[g].bits : at(8 * j + g).row[2 * t + 1].bits;
      at(lane).out[j] = low | high << 16;
    }
}

}  // namespace fp::cuda::host
