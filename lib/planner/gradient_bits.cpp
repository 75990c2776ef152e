#include "planner/gradient_bits.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exec/gradient_guard.h"

namespace fp {
namespace {

constexpr double kMost = 8, kStep = 1e-3;  // of a standard normal variable that is integrated

// Density of the magnitude of a standard normal variable.
double density(double x) { return std::sqrt(2 / std::numbers::pi) * std::exp(-x * x / 2); }

// Returns the median of the largest of n magnitudes: erf(m / sqrt 2)^n = 1/2.
double largest_of(double n) {
  double low = 0, high = kMost;
  while (high - low > 1e-6) {
    const double middle = (low + high) / 2;
    (std::pow(std::erf(middle / std::numbers::sqrt2), n) < 0.5 ? low : high) = middle;
  }
  return low;
}

template <class F>
double mean(const F& f) {
  double sum = 0;
  for (double x = kStep / 2; x < kMost; x += kStep) sum += density(x) * f(x) * kStep;
  return sum;
}

}  // namespace

double usual_error(const BlockFormat& f) {
  const double largest = largest_of(static_cast<double>(f.block)), scale = largest / largest_code(f.bits);
  const auto off = [&](double x) { return x < largest ? std::abs(std::round(x / scale) * scale - x) : 0; };
  if (!f.rotated) return mean([&](double x) { return std::min(1.0, off(x) / x); });
  // What rotated elements are off by is spread over all of them, and does not depend on x: normal with deviation r. The
  // ratio t of both has the density r / (pi (r^2 + t^2)); this is the mean of min(1, |t|).
  const double r = std::sqrt(mean([&](double x) { return off(x) * off(x); }));
  return (2 * std::atan(r) + r * std::log1p(1 / (r * r))) / std::numbers::pi;
}

int64_t fewest_gradient_bits(const CommunicationSection& c) {
  for (const int bits : {4, 8}) {
    const int fewest = c.node_gradient_bits > 0 ? std::min(bits, static_cast<int>(c.node_gradient_bits)) : bits;
    if (usual_error({fewest, c.block, c.rotate_gradients}) <= GradientGuard::kClearlyWithin * c.max_gradient_error)
      return bits;
  }
  return 0;
}

}  // namespace fp
