// Dropout of attention probabilities. The threads of a block together draw a bit mask of the probabilities of a tile
// that are kept, in shared memory. So every Philox counter is evaluated once for the four keys it covers, however the
// scores are divided over the threads.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "cuda/device/platform.h"
#include "ops/ops.h"

namespace fp::cuda {

// Dropout parameters of a call, passed to kernels by value.
struct AttentionDropout {
  Dropout dropout;  // p = 0: off
  float p = 0, kept_factor = 1;
  int64_t first_head = 0;
  const int32_t* sample_ids = nullptr;  // [B,2]
  constexpr bool on() const { return p > 0; }
};

// Number of mask words for Keys keys of a query.
template <int Keys>
constexpr int kKeptWords = (Keys + 31) / 32;

// Draws the mask of `Queries` queries from position p on and `Keys` keys from position n on: query i keeps key j when
// bit j % 32 of bits[i * kKeptWords<Keys> + j / 32] is set.
template <int Queries, int Keys, int Threads>
__device__ __forceinline__ void draw_kept(uint32_t* bits, const AttentionDropout& d, int sample, int head, int p,
                                          int n) {
  const Philox::Key key = dropout_key(d.dropout, static_cast<uint32_t>(d.first_head + head));
  const auto low = static_cast<uint32_t>(d.sample_ids[2 * sample]);
  const auto high = static_cast<uint32_t>(d.sample_ids[2 * sample + 1]);
  for (int i = static_cast<int>(threadIdx.x); i < Queries * kKeptWords<Keys>; i += Threads) {
    const auto token = static_cast<uint32_t>(p + i / kKeptWords<Keys>);
    const auto first = static_cast<uint32_t>(n + i % kKeptWords<Keys> * 32);
    uint32_t word = 0;
    for (uint32_t counter = first / 4; counter * 4 < first + 32; ++counter) {
      const Philox::Counter random = Philox::block({counter, token, low, high}, key);
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t bit = counter * 4 + e - first;  // wraps around below the first key
        if (bit < 32 && !(Philox::uniform(random[e]) < d.p)) word |= 1u << bit;
      }
    }
    bits[i] = word;
  }
}

template <int Keys>
__device__ __forceinline__ bool is_kept(const uint32_t* bits, int query, int key) {
  return (bits[query * kKeptWords<Keys> + key / 32] >> (key % 32) & 1) != 0;
}

}  // namespace fp::cuda
