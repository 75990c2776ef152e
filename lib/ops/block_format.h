// BlockFormat: how a row of floats is quantized for a message. A row is cut into blocks of `block` elements, the last
// of which may be shorter; each has a scale, and every element becomes an integer of `bits` bits times that scale.
//
// A packed row holds the scales (f32), then the codes in two's complement, with 4 bits two in a byte, the first one in
// its lower half; its size is rounded up to 16 bytes, whose rest is undefined. Codes are symmetric: -m to m with m =
// 2^(bits-1) - 1, and scale = largest magnitude / m. So the largest element is exact, and no other is off by more than
// half a scale. A block with an infinity or a NaN has the scale NaN, and all of its elements are NaN afterwards.
//
// Rotated, every 32 consecutive elements of a row are multiplied by the orthogonal Hadamard matrix of order 32 before
// they are quantized, and again afterwards, which undoes it (SDP4Bit, Jia et al. 2024, arXiv:2410.15526): an outlier
// does not set the scale of its block alone. The last columns % 32 elements of a row stay as they are.
#pragma once

#include <cstdint>

namespace fp {

struct BlockFormat {
  int bits = 8;         // 4 or 8
  int64_t block = 256;  // elements, a multiple of 8: whole words; rotated: of 32
  bool rotated = false;

  bool operator==(const BlockFormat&) const = default;
};

constexpr int64_t blocks_of(const BlockFormat& f, int64_t columns) { return (columns + f.block - 1) / f.block; }
constexpr int64_t code_bytes(const BlockFormat& f, int64_t columns) { return (columns * f.bits + 7) / 8; }
constexpr int64_t packed_bytes(const BlockFormat& f, int64_t columns) {
  return (4 * blocks_of(f, columns) + code_bytes(f, columns) + 15) / 16 * 16;
}

constexpr int64_t kRotated = 32;                   // elements that are rotated together
constexpr float kRotationFactor = 0.17677669529f;  // 1 / sqrt(kRotated)
// Returns how many elements of a row are rotated.
constexpr int64_t rotated_elements(const BlockFormat& f, int64_t columns) {
  return f.rotated ? columns / kRotated * kRotated : 0;
}
// Rotates kRotated elements, in one order of operations on all backends.
inline void rotate(float* x) {
  for (int64_t stride = 1; stride < kRotated; stride *= 2)
    for (int64_t i = 0; i < kRotated; i += 2 * stride)
      for (int64_t k = i; k < i + stride; ++k) {
        const float a = x[k], b = x[k + stride];
        x[k] = a + b;
        x[k + stride] = a - b;
      }
  for (int64_t i = 0; i < kRotated; ++i) x[i] *= kRotationFactor;
}

constexpr int largest_code(int bits) { return (1 << (bits - 1)) - 1; }

// Returns the code in one of the two halves of a byte.
constexpr int code_in_half(uint8_t byte, int64_t half) {
  return static_cast<int8_t>(static_cast<uint8_t>(half == 0 ? byte << 4 : byte & 0xf0u)) >> 4;
}

}  // namespace fp
