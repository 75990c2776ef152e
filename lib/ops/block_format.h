// BlockFormat: how a row of floats is quantized for a message. A row is cut into blocks of `block` elements, the last
// of which may be shorter; each has a scale, and every element becomes an integer of `bits` bits times that scale.
//
// A packed row holds the scales (f32), then the codes in two's complement, with 4 bits two in a byte, the first one in
// its lower half; its size is rounded up to 16 bytes, whose rest is undefined. Codes are symmetric: -m to m with m =
// 2^(bits-1) - 1, and scale = largest magnitude / m. So the largest element is exact, and no other is off by more than
// half a scale. A block with an infinity or a NaN has the scale NaN, and all of its elements are NaN afterwards.
#pragma once

#include <cstdint>

namespace fp {

struct BlockFormat {
  int bits = 8;         // 4 or 8
  int64_t block = 256;  // elements, a multiple of 8: whole words

  bool operator==(const BlockFormat&) const = default;
};

constexpr int64_t blocks_of(const BlockFormat& f, int64_t columns) { return (columns + f.block - 1) / f.block; }
constexpr int64_t code_bytes(const BlockFormat& f, int64_t columns) { return (columns * f.bits + 7) / 8; }
constexpr int64_t packed_bytes(const BlockFormat& f, int64_t columns) {
  return (4 * blocks_of(f, columns) + code_bytes(f, columns) + 15) / 16 * 16;
}

constexpr int largest_code(int bits) { return (1 << (bits - 1)) - 1; }

// Returns the code in one of the two halves of a byte.
constexpr int code_in_half(uint8_t byte, int64_t half) {
  return static_cast<int8_t>(static_cast<uint8_t>(half == 0 ? byte << 4 : byte & 0xf0u)) >> 4;
}

}  // namespace fp
