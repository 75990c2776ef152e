// Random numbers of the ops, the same on every backend: dropout and stochastic rounding. They are keyed so that no
// result depends on ranks, threads or the order of calls.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "base/philox.h"

namespace fp {

// One stream of dropout. Philox with (seed, purpose, layer) as key and (element, token, sample) as counter decides
// which elements are kept; kept values are scaled by 1/(1-p). p = 0: off.
struct Dropout {
  double p = 0.0;
  uint64_t seed = 0;
  Purpose purpose = Purpose::residual_dropout;
  uint32_t layer = 0;
};

// One stream of stochastic rounding of f32 to bf16. Element i uses 16 random bits: half i%2 of word i/2%4 of the Philox
// block with counter (i/8, high word of i/8, step, 0), where i counts from `first`, a multiple of 8.
struct StochasticRounding {
  uint64_t seed = 0;
  uint64_t stream = 0;  // Philox::name_id of the parameter
  uint32_t step = 0;
  int64_t first = 0;  // of the parameter's elements, the one that is element 0 of the call
};

// Returns the Philox key of a dropout stream; only attention passes a head.
constexpr Philox::Key dropout_key(const Dropout& d, uint32_t head = 0) {
  const Philox::Key k = Philox::key(d.seed, d.purpose);
  const uint64_t mixed = Philox::mix((uint64_t{k[1]} << 32 | k[0]) ^ Philox::mix(uint64_t{d.layer} << 32 | head));
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

// Returns the factor of one element: 0 when dropped, 1/(1-p) when kept. Element e uses word e%4 of the Philox block
// with counter (e/4, token, sample words).
constexpr float dropout_factor(const Dropout& d, const Philox::Key& key, uint32_t element, uint32_t token,
                               uint32_t sample_low, uint32_t sample_high) {
  const auto words = Philox::block({element / 4, token, sample_low, sample_high}, key);
  return Philox::uniform(words[element % 4]) < static_cast<float>(d.p) ? 0.0f : static_cast<float>(1.0 / (1.0 - d.p));
}

constexpr Philox::Key rounding_key(const StochasticRounding& r) {
  const Philox::Key k = Philox::key(r.seed, Purpose::rounding);
  const uint64_t mixed = Philox::mix((uint64_t{k[1]} << 32 | k[0]) ^ r.stream);
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}
constexpr Philox::Counter rounding_words(const StochasticRounding& r, const Philox::Key& key, uint64_t eight) {
  eight += static_cast<uint64_t>(r.first) / 8;
  return Philox::block({static_cast<uint32_t>(eight), static_cast<uint32_t>(eight >> 32), r.step, 0}, key);
}
// Rounds x to bf16 after adding half i of the words, i in [0,8), to the half of x that bf16 cuts off. Infinities and
// NaN are kept.
constexpr bf16 rounded_up_by(float x, const Philox::Counter& words, unsigned i) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bf16(x);
  bf16 y{};
  y.bits = static_cast<uint16_t>((bits + (words[i / 2] >> (i % 2 * 16) & 0xffffu)) >> 16);
  return y;
}

}  // namespace fp
