// The valid columns of a slice of logits, for kernels: padding is a bound, masked ids are bits in shared memory.
#pragma once

#include "cuda/device/warp.h"
#include "ops/ops.h"

namespace fp::cuda {

struct Columns {
  int count = 0;  // columns of the slice
  int valid = 0;  // columns from this one on are padding
  int first_id = 0;
  const int32_t* masked_ids = nullptr;
  int masked = 0;
  float scale = 1.0f;

  size_t shared_bytes() const { return masked == 0 ? 0 : static_cast<size_t>((count + 31) / 32) * sizeof(unsigned); }
};

inline Columns columns_of(const Tensor& logits, const Vocabulary& v) {
  Columns c;
  c.count = static_cast<int>(logits.cols());
  c.valid = static_cast<int>(std::clamp<int64_t>(v.valid_ids - v.first_id, 0, logits.cols()));
  c.first_id = static_cast<int>(v.first_id);
  c.masked_ids = v.masked_ids ? v.masked_ids.ptr<int32_t>() : nullptr;
  c.masked = static_cast<int>(v.masked_ids.elements());
  c.scale = static_cast<float>(v.logit_scale);
  return c;
}

// Columns with the bits of masked ids at `dead` (null: none are masked).
struct LiveColumns {
  const unsigned* dead;
  int valid;
  // Returns true only when the columns [first, first + count) are all valid; always false when ids are masked.
  __device__ bool all(int first, int count) const { return dead == nullptr && first + count <= valid; }
  __device__ bool operator()(int column) const {
    return column < valid && (dead == nullptr || (dead[column / 32] >> (column % 32) & 1u) == 0);
  }
};

// Fills the bits of the masked ids. Called by all threads of the block; each sets words of its own, so there is no
// race. Ends with a barrier.
__device__ inline LiveColumns live_columns(const Columns& c, unsigned* bits) {
  if (c.masked == 0) return {nullptr, c.valid};
  const int words = (c.count + 31) / 32;
  for (int w = threadIdx.x; w < words; w += blockDim.x) {
    unsigned dead = 0;
    for (int i = 0; i < c.masked; ++i) {
      const int column = c.masked_ids[i] - c.first_id;
      if (column >= 32 * w && column < 32 * w + 32) dead |= 1u << (column - 32 * w);
    }
    bits[w] = dead;
  }
  __syncthreads();
  return {bits, c.valid};
}

}  // namespace fp::cuda
