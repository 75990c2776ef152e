// Sums of squares in double, and AdamW: one pass over its four arrays. It is memory bound, so the checksums computed in
// the same pass cost almost nothing.
#include "ops/cpu/kernels/bit_sum.h"
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

typedef double Vd __attribute__((vector_size(4 * kLanes)));
typedef float Vhalf __attribute__((vector_size(2 * kLanes)));
constexpr int kHalf = kLanes / 2;

FP_INLINE Vd load_double(const float* p) {
  Vhalf v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vd);
}

double block_square(const float* x, int64_t n) {
  Vd t[4] = {};
  int64_t i = 0;
  for (; i + 4 * kHalf <= n; i += 4 * kHalf)
    for (int j = 0; j < 4; ++j) {
      const Vd v = load_double(x + i + j * kHalf);
      t[j] += v * v;
    }
  const Vd all = (t[0] + t[1]) + (t[2] + t[3]);
  double total = 0;
  for (int j = 0; j < kHalf; ++j) total += all[j];
  for (; i < n; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

struct Updated {
  Vf grad, param, m, v;
};

template <class W>
FP_INLINE Updated update(const AdamWArgs& a, int64_t c, W w) {
  const Vf grad = load(a.grad + c, w), g = grad * a.grad_scale;
  const Vf m = load(a.m + c, w) * a.beta1 + g * a.one_minus_beta1;
  const Vf v = load(a.v + c, w) * a.beta2 + g * g * a.one_minus_beta2;
  const Vf step = m * a.m_correction / (sqrt(v * a.v_correction) + a.eps);
  Vf param = load(a.param + c, w);
  param -= (step + param * a.weight_decay) * a.lr;
  store(a.m + c, m, w);
  store(a.v + c, v, w);
  store(a.param + c, param, w);
  if (a.weights != nullptr) store(static_cast<bf16*>(a.weights) + c, param, w);
  return {grad, param, m, v};
}

// The bit sums of one block of the four arrays that an update writes.
class WrittenBits {
 public:
  WrittenBits(const AdamWArgs& a, int64_t begin)
      : arrays_{a.param + begin, a.m + begin, a.v + begin},
        weights_(a.weights == nullptr ? nullptr : static_cast<const uint16_t*>(a.weights) + begin) {}
  inline __attribute__((always_inline)) void add(const Updated& now, int64_t c) {
    sums_[0].add(as_bits(now.param));
    sums_[1].add(as_bits(now.m));
    sums_[2].add(as_bits(now.v));
    if (weights_ != nullptr) sums_[3].add(load_row(weights_ + c));
  }
  void finish(uint32_t* sums, int64_t rows, int64_t n) const {
    for (int k = 0; k < 3; ++k) sums_[k].finish(sums + 2 * k, reinterpret_cast<const uint32_t*>(arrays_[k]), rows, n);
    if (weights_ != nullptr) sums_[3].finish(sums + 6, weights_, rows, n);
  }

 private:
  const float* arrays_[3];
  const uint16_t* weights_;
  BitSum sums_[4];
};

// Updates the n elements of block number `block`, from element `begin` on, and computes their sums.
template <bool kBits>
void update_block(const AdamWArgs& a, int64_t block, int64_t begin, int64_t n) {
  constexpr int64_t kShort = 64 * kLanes;
  WrittenBits bits(a, begin);
  double sum = 0, magnitude = 0;
  for (int64_t from = 0; from < n; from += kShort) {
    Vf plain = splat(0), magnitudes = splat(0);
    columns(smaller(kShort, n - from), [&](int64_t c, auto w) {
      const Updated now = update(a, begin + from + c, w);
      plain += now.grad;
      magnitudes += magnitude_of(now.grad);
      if constexpr (kBits && std::is_same_v<decltype(w), Full>) bits.add(now, from + c);
    });
    for (int i = 0; i < kLanes; ++i) {
      sum += static_cast<double>(plain[i]);
      magnitude += static_cast<double>(magnitudes[i]);
    }
  }
  if (a.gradient_sums != nullptr) {
    a.gradient_sums[2 * block] = sum;
    a.gradient_sums[2 * block + 1] = magnitude;
  }
  if constexpr (kBits) bits.finish(a.bit_sums + 8 * block, n / kLanes, n);
}

}  // namespace

void sum_squares(double* sums, const float* x, const Block* blocks, int64_t count) {
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sums[i] = block_square(x + blocks[i].offset, blocks[i].count);
  });
}

void adamw(const AdamWArgs& a) {
  if (a.gradient_sums == nullptr && a.bit_sums == nullptr)
    return parallel_for(a.count, 4096, [&](int64_t begin, int64_t end) {
      columns(end - begin, [&](int64_t i, auto w) { update(a, begin + i, w); });
    });
  const auto one = a.bit_sums != nullptr ? update_block<true> : update_block<false>;
  parallel_for((a.count + a.block - 1) / a.block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) one(a, i, i * a.block, smaller(a.block, a.count - i * a.block));
  });
}

}  // namespace fp::cpu::FP_ISA
