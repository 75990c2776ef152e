#include <cmath>

#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

void RefOps::run(const calls::BitSums& call) {
  uint32_t sum = 0, weighted = 0;
  for (int64_t i = 0; i < call.x.elements(); ++i) {
    const uint32_t word =
        call.x.dtype == DType::bf16 ? call.x.ptr<bf16>()[i].bits : std::bit_cast<uint32_t>(call.x.ptr<float>()[i]);
    sum += word;
    weighted += (2 * static_cast<uint32_t>(i) + 1) * word;
  }
  call.sums.ptr<int32_t>()[0] = static_cast<int32_t>(sum);
  call.sums.ptr<int32_t>()[1] = static_cast<int32_t>(weighted);
}

void RefOps::run(const calls::PieceSums& call) {
  const ref::Values X = ref::load(call.x);
  const int64_t each = call.x.elements() / call.sums.rows();
  ref::Values S;
  for (int64_t p = 0; p < call.sums.rows(); ++p) {
    double sum = 0, magnitude = 0;
    for (int64_t i = p * each; i < (p + 1) * each; ++i) {
      sum += X[static_cast<size_t>(i)];
      magnitude += std::abs(X[static_cast<size_t>(i)]);
    }
    S.push_back(sum);
    S.push_back(magnitude);
  }
  ref::store(call.sums, S);
}

}  // namespace fp
