#include <cmath>

#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

void RefOps::bit_sums(const Tensor& sums, const Tensor& x) {
  checks::bit_sums(sums, x);
  uint32_t sum = 0, weighted = 0;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const uint32_t word = x.dtype == DType::bf16 ? x.ptr<bf16>()[i].bits : std::bit_cast<uint32_t>(x.ptr<float>()[i]);
    sum += word;
    weighted += (2 * static_cast<uint32_t>(i) + 1) * word;
  }
  sums.ptr<int32_t>()[0] = static_cast<int32_t>(sum);
  sums.ptr<int32_t>()[1] = static_cast<int32_t>(weighted);
}

void RefOps::piece_sums(const Tensor& sums, const Tensor& x) {
  checks::piece_sums(sums, x);
  const ref::Values X = ref::load(x);
  const int64_t each = x.elements() / sums.rows();
  ref::Values S;
  for (int64_t p = 0; p < sums.rows(); ++p) {
    double sum = 0, magnitude = 0;
    for (int64_t i = p * each; i < (p + 1) * each; ++i) {
      sum += X[static_cast<size_t>(i)];
      magnitude += std::abs(X[static_cast<size_t>(i)]);
    }
    S.push_back(sum);
    S.push_back(magnitude);
  }
  ref::store(sums, S);
}

}  // namespace fp
