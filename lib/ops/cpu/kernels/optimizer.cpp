// Sums of squares in double, and the updates of optimizers: one pass over their arrays. They are memory bound, so the
// checksums computed in the same pass cost almost nothing.
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

struct VectorMath {
  static inline __attribute__((always_inline)) Vf sqrt(Vf x) { return FP_ISA::sqrt(x); }
  static inline __attribute__((always_inline)) Vf sign(Vf x) {
    return __builtin_convertvector((x < Vf{}) - (x > Vf{}), Vf);  // a comparison gives -1 or 0
  }
};

// The new values of a row, and the gradient that it was updated by.
template <class Rule>
struct Updated {
  Vf grad, param, states[Rule::kStates];
};

template <class Rule, class W>
FP_INLINE Updated<Rule> update_row(const UpdateArgs& a, const Rule& rule, int64_t c, W w) {
  Updated<Rule> row;
  row.grad = load(a.grad + c, w);
  row.param = load(a.param + c, w);
  for (int k = 0; k < Rule::kStates; ++k) row.states[k] = load(a.states[k] + c, w);
  rule.template apply<VectorMath>(row.param, row.states, row.grad);
  for (int k = 0; k < Rule::kStates; ++k) store(a.states[k] + c, row.states[k], w);
  store(a.param + c, row.param, w);
  if (a.weights != nullptr) store(static_cast<bf16*>(a.weights) + c, row.param, w);
  return row;
}

// The bit sums of one block of the arrays that an update writes.
template <class Rule>
class WrittenBits {
 public:
  WrittenBits(const UpdateArgs& a, int64_t begin)
      : param_(a.param + begin),
        weights_(a.weights == nullptr ? nullptr : static_cast<const uint16_t*>(a.weights) + begin) {
    for (int k = 0; k < Rule::kStates; ++k) states_[k] = a.states[k] + begin;
  }
  inline __attribute__((always_inline)) void add(const Updated<Rule>& now, int64_t c) {
    sums_[0].add(as_bits(now.param));
    for (int k = 0; k < Rule::kStates; ++k) sums_[k + 1].add(as_bits(now.states[k]));
    if (weights_ != nullptr) sums_[Rule::kStates + 1].add(load_row(weights_ + c));
  }
  void finish(uint32_t* sums, int64_t rows, int64_t n) const {
    const auto words = [](const float* x) { return reinterpret_cast<const uint32_t*>(x); };
    sums_[0].finish(sums, words(param_), rows, n);
    for (int k = 0; k < Rule::kStates; ++k) sums_[k + 1].finish(sums + 2 * (k + 1), words(states_[k]), rows, n);
    constexpr int kLast = Rule::kStates + 1;
    if (weights_ != nullptr) sums_[kLast].finish(sums + 2 * kLast, weights_, rows, n);
  }

 private:
  const float* param_;
  const float* states_[Rule::kStates];
  const uint16_t* weights_;
  BitSum sums_[Rule::kStates + 2];
};

// Updates the n elements of block number `block`, from element `begin` on, and computes their sums.
template <class Rule, bool kBits>
void update_block(const UpdateArgs& a, const Rule& rule, int64_t block, int64_t begin, int64_t n) {
  constexpr int64_t kShort = 64 * kLanes;
  WrittenBits<Rule> bits(a, begin);
  double sum = 0, magnitude = 0;
  for (int64_t from = 0; from < n; from += kShort) {
    Vf plain = splat(0), magnitudes = splat(0);
    columns(smaller(kShort, n - from), [&](int64_t c, auto w) {
      const Updated<Rule> now = update_row(a, rule, begin + from + c, w);
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
  if constexpr (kBits) bits.finish(a.bit_sums + 2 * (Rule::kStates + 2) * block, n / kLanes, n);
}

template <class Rule>
void update_by(const UpdateArgs& a, const Rule& rule) {
  if (a.gradient_sums == nullptr && a.bit_sums == nullptr)
    return parallel_for(a.count, 4096, [&](int64_t begin, int64_t end) {
      columns(end - begin, [&](int64_t i, auto w) { update_row(a, rule, begin + i, w); });
    });
  const auto one = a.bit_sums != nullptr ? update_block<Rule, true> : update_block<Rule, false>;
  parallel_for((a.count + a.block - 1) / a.block, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) one(a, rule, i, i * a.block, smaller(a.block, a.count - i * a.block));
  });
}

}  // namespace

void sum_squares(double* sums, const float* x, const Block* blocks, int64_t count) {
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sums[i] = block_square(x + blocks[i].offset, blocks[i].count);
  });
}

void update(const UpdateArgs& a) {
  switch (a.rule) {
#define FP_UPDATE(Rule, name) \
  case UpdateRule::name:      \
    return update_by(a, *static_cast<const rules::Rule*>(a.numbers));
    FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE
  }
}

}  // namespace fp::cpu::FP_ISA
