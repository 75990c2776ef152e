#include "ranks/outcome.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "checkpoint/inspect.h"

namespace fp::testing {

double worst_parameter(const Checkpoint& a, const Checkpoint& b) {
  double worst = 0;
  for (const CheckpointParam& p : a.manifest().parameters) {
    const int64_t elements = p.shape.elements();
    const auto x = first_elements(a, p.name, StateKind::param, elements);
    const auto y = first_elements(b, p.name, StateKind::param, elements);
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < elements; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      const double d = std::abs(static_cast<double>(x[i]) - y[i]);
      difference = std::isfinite(d) ? std::max(difference, d) : HUGE_VAL;
    }
    UNSCOPED_INFO(p.name << ": " << difference / largest);
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

double worst_parameter(const std::filesystem::path& run_a, const std::filesystem::path& run_b, int steps) {
  const auto last = [steps](const std::filesystem::path& run) {
    return Checkpoint::open(run / "checkpoints" / fmt::format("step-{:08}", steps));
  };
  return worst_parameter(last(run_a), last(run_b));
}

}  // namespace fp::testing
