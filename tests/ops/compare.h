// Error bounds for the comparison of a backend with the oracle.
//
// Both round their result once to the format of the destination: together at most one spacing (ulp) apart. To this is
// added the error of computing in f32: with u = 2^-24, a sum of n terms in any order is off by at most (n + a few) * u
// * sum of the terms' magnitudes, which each test adds up in double. An elementary function (exp, tanh, ...) may be off
// by 8u.
//   |result - expected| <= spacing(|expected| + bound) + bound
// A bf16 kernel may also round an operand of an inner GEMM to bf16 (attention's probabilities): 2^-8 of its magnitude.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace fp::test {

constexpr double kUnit = 0x1p-24;  // rounding unit of f32
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFunction = 0x1p-21;  // 8u: relative error of an elementary function in f32

// Unit roundoff of a format: the relative error of one rounding to nearest.
constexpr double unit_of(DType t) { return epsilon_of(t) / 2; }

// Distance from x to the next value of the format.
inline double spacing(double x, DType t) {
  if (x == 0.0) return 0.0;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(epsilon_of(t), exponent - 1);
}

// Bound on the error of a sum of `terms` values whose magnitudes add up to `magnitude`.
inline double sum_error(int64_t terms, double magnitude) { return static_cast<double>(terms + 4) * kUnit * magnitude; }

inline bool close(double result, double expected, double bound, DType t) {
  if (std::isnan(expected)) return std::isnan(result);
  if (std::isinf(expected)) return result == expected;
  const double smallest_normal = 0x1p-126;  // below it a backend may flush to zero
  return std::abs(result - expected) <= spacing(std::abs(expected) + bound, t) + bound + smallest_normal;
}

}  // namespace fp::test
