// Sums of squares in double, and AdamW: one pass over its four arrays, bound by memory.
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

}  // namespace

void sum_squares(double* sums, const float* x, const Block* blocks, int64_t count) {
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sums[i] = block_square(x + blocks[i].offset, blocks[i].count);
  });
}

void adamw(const AdamWArgs& a) {
  parallel_for(a.count, 4096, [&](int64_t begin, int64_t end) {
    columns(end - begin, [&](int64_t i, auto w) {
      const int64_t c = begin + i;
      const Vf g = load(a.grad + c, w) * a.grad_scale;
      const Vf m = load(a.m + c, w) * a.beta1 + g * a.one_minus_beta1;
      const Vf v = load(a.v + c, w) * a.beta2 + g * g * a.one_minus_beta2;
      const Vf update = m * a.m_correction / (sqrt(v * a.v_correction) + a.eps);
      Vf param = load(a.param + c, w);
      param -= (update + param * a.weight_decay) * a.lr;
      store(a.m + c, m, w);
      store(a.v + c, v, w);
      store(a.param + c, param, w);
      if (a.weights != nullptr) store(static_cast<bf16*>(a.weights) + c, param, w);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
