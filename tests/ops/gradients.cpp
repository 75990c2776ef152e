#include "gradients.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace fp::test {
namespace {

constexpr double kStep = 0x1p-8;
constexpr double kTolerance = 0x1p-16;
constexpr double kThirdDerivative = 2.0;  // relative to the largest slope, for functions as curved as these

std::span<float> floats(const Operand& o) { return {o.tensor.ptr<float>(), static_cast<size_t>(o.elements())}; }

}  // namespace

std::vector<double> weighted(const std::vector<Output>& outputs) {
  std::vector<double> terms;
  for (const Output& o : outputs)
    for (size_t i = 0; i < floats(*o.y).size(); ++i)
      terms.push_back(static_cast<double>(floats(*o.y)[i]) * static_cast<double>(floats(*o.weight)[i]));
  return terms;
}

void check_gradients(const std::function<void()>& forward, const std::function<std::vector<double>()>& terms,
                     const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    const std::span<float> x = floats(*variable.x), dx = floats(*variable.dx);
    REQUIRE(x.size() == dx.size());
    double largest = 1.0;
    for (const float g : dx) largest = std::max(largest, std::abs(static_cast<double>(g)));
    size_t bad = 0, zeros = 0;
    std::string worst;
    for (size_t i = 0; i < x.size(); ++i) {
      const float saved = x[i];
      x[i] = static_cast<float>(saved + kStep);
      const double above = x[i];
      forward();
      const std::vector<double> right = terms();
      x[i] = static_cast<float>(saved - kStep);
      const double width = above - x[i];
      forward();
      const std::vector<double> left = terms();
      x[i] = saved;
      double difference = 0.0, moved = 0.0;
      for (size_t t = 0; t < right.size(); ++t) {
        difference += right[t] - left[t];
        if (right[t] != left[t]) moved += std::abs(right[t]);
      }
      const double slope = difference / width, tolerance = kTolerance * (moved + kThirdDerivative * largest);
      zeros += dx[i] == 0.0f;
      if (std::abs(slope - dx[i]) <= tolerance) continue;
      if (bad++ == 0)
        worst = fmt::format("{}[{}]: slope {:.7g}, gradient {:.7g}, tolerance {:.2g}", variable.x->name, i, slope,
                            dx[i], tolerance);
    }
    INFO(bad << " of " << x.size() << " gradients are wrong, the first: " << worst);
    CHECK(bad == 0);
    CHECK(zeros < x.size());
    forward();
  }
}

}  // namespace fp::test
