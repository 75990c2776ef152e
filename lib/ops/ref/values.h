// Tensors as vectors of doubles: loaded whole, and rounded once when stored.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ops/ops.h"

namespace fp::ref {

using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rounds a double to the nearest bf16, without the double rounding of going through float.
inline bf16 nearest_bf16(double x) {
  float f = static_cast<float>(x);
  const bool tie = (std::bit_cast<uint32_t>(f) & 0xffffu) == 0x8000u;
  if (tie && f != x)
    f = std::nextafter(f, x > f ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
  return bf16(f);
}

// Returns `x` rounded to `dtype`.
inline double rounded(double x, DType dtype) {
  return dtype == DType::bf16 ? static_cast<double>(nearest_bf16(x)) : static_cast<double>(static_cast<float>(x));
}

// Returns the elements of a tensor; an empty tensor gives an empty vector.
inline Values load(const Tensor& t) {
  const auto n = static_cast<size_t>(t.elements());
  if (t.dtype == DType::bf16) return Values(t.ptr<bf16>(), t.ptr<bf16>() + n);
  return Values(t.ptr<float>(), t.ptr<float>() + n);
}

inline void store(const Tensor& t, const Values& x, Write write = Write::set) {
  FP_CHECK(static_cast<size_t>(t.elements()) == x.size(), "storing {} values in {}", x.size(), t.shape.str());
  for (size_t i = 0; i < x.size(); ++i) {
    if (t.dtype == DType::bf16) {
      bf16& y = t.ptr<bf16>()[i];
      y = nearest_bf16(write == Write::add ? y + x[i] : x[i]);
    } else {
      float& y = t.ptr<float>()[i];
      y = static_cast<float>(write == Write::add ? y + x[i] : x[i]);
    }
  }
}

// Returns indices, checked to lie in [low, high).
inline std::vector<int64_t> load_ids(std::string_view op, const char* what, const Tensor& t, int64_t low,
                                     int64_t high) {
  std::vector<int64_t> ids(t.ptr<int32_t>(), t.ptr<int32_t>() + t.elements());
  for (const int64_t id : ids)
    FP_CHECK(id >= low && id < high, "{}: {} holds {}, expected [{}, {})", op, what, id, low, high);
  return ids;
}

// The two words of a sample's global index; 0 where there are no sample ids.
struct SampleId {
  uint32_t low = 0, high = 0;
};
inline SampleId sample_id(const Tensor& sample_ids, int64_t b) {
  if (!sample_ids) return {};
  const int32_t* words = sample_ids.ptr<int32_t>() + 2 * b;
  return {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])};
}

}  // namespace fp::ref
