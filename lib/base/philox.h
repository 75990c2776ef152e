// Philox4x32-10: counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//
// Every random number in fptrain is a pure function of the seed, its purpose and the identity of the value it is drawn
// for, never of a rank or of the order of calls, so every parallel plan and every resumed run draws the same numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace fp {

// The purpose of a random number. The values are part of the reproducibility contract: append, never renumber.
enum class Purpose : uint32_t {
  init = 1,
  data_order = 2,
  embedding_dropout = 3,
  attention_dropout = 4,
  residual_dropout = 5,
  ffn_dropout = 6,
  sampling = 7,
  rounding = 8,
  dataset_mix = 9,
  key_values = 10
};

struct Philox {
  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  static constexpr Counter block(Counter c, Key k) {
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
      }
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    }
    return c;
  }

  // Uniform in (0,1): 24 bits, never 0 and never 1 (the midpoint above the largest value would round up to 1).
  static constexpr float uniform(uint32_t bits) {
    const float u = (static_cast<float>(bits >> 8) + 0.5f) * 0x1p-24f;
    return u < 1.0f ? u : 0x1.fffffep-1f;
  }

  // Two standard normal values from two random words (Box-Muller, computed in double).
  static std::array<float, 2> normal(uint32_t a, uint32_t b) {
    const double u = (static_cast<double>(a) + 0.5) * 0x1p-32, v = static_cast<double>(b) * 0x1p-32;
    const double r = std::sqrt(-2.0 * std::log(u)), angle = 6.283185307179586476925 * v;
    return {static_cast<float>(r * std::cos(angle)), static_cast<float>(r * std::sin(angle))};
  }

  // Key of a purpose: the seed mixed with the purpose, so that purposes never share a stream.
  static constexpr Key key(uint64_t seed, Purpose purpose) {
    const uint64_t mixed = mix(seed ^ (uint64_t{static_cast<uint32_t>(purpose)} << 56));
    return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
  }

  // splitmix64 finalizer.
  static constexpr uint64_t mix(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // 64-bit FNV-1a hash of a name, mixed; identifies a parameter in a counter.
  static constexpr uint64_t name_id(std::string_view name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    return mix(h);
  }
};

}  // namespace fp
