// Compares the analytic gradients of whole models with central differences of the loss.
#include <catch2/catch.hpp>
#include <cmath>

#include "exec/rig.h"

using namespace fp;
using namespace fp::test;

namespace {

// The step's objective: mean cross entropy plus z-loss.
double objective(Rig& rig, std::span<const Batch> batches, double z) {
  const LossSums s = rig.executor.accumulate(batches);
  return (s.loss + z * s.z) / static_cast<double>(s.units);
}

// Moves all parameters by `step` along `direction`.
void move(Rig& rig, const std::vector<float>& base, const std::vector<float>& direction, double step) {
  std::vector<float> moved(base.size());
  for (size_t i = 0; i < base.size(); ++i) moved[i] = static_cast<float>(base[i] + step * direction[i]);
  rig.ops->copy_in({rig.model.params().master(), moved.data()});
  rig.model.params().refresh_weights(*rig.ops);
}

}  // namespace

TEST_CASE("gradients of whole models match finite differences", "[exec][slow]") {
  const std::string name = GENERATE(from_range(tiny_names()));
  const bool dropout = GENERATE(false, true);
  CAPTURE(name, dropout);
  ModelSection m = tiny_model(name);
  if (dropout) m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0.25;
  constexpr double z = 0.01;
  Rig rig(make_ref_ops(), m, DType::f32, Recompute::none, {z, 5});
  const std::vector<Batch> batches = {random_batch(m, 2, 12, 1, true), random_batch(m, 2, 12, 2, true)};
  objective(rig, batches, z);
  const std::vector<float> gradient = rig.host(rig.model.params().grads()),
                           base = rig.host(rig.model.params().master());

  // One parameter tensor at a time, along its own gradient and along a random direction.
  for (const Param& p : rig.model.table()) {
    CAPTURE(p.name);
    const auto first = static_cast<size_t>(p.offset), count = static_cast<size_t>(p.local_elements());
    double norm = 0;
    for (size_t i = first; i < first + count; ++i) norm += static_cast<double>(gradient[i]) * gradient[i];
    norm = std::sqrt(norm);
    // The bias of keys, before the softmax, has no gradient, so there is nothing to compare along it.
    for (const bool along : {true, false}) {
      std::vector<float> direction(base.size(), 0.0f);
      double expected = 0;
      for (size_t i = first; i < first + count; ++i) {
        const auto unit =
            Philox::normal(static_cast<uint32_t>(Philox::mix(i)), static_cast<uint32_t>(Philox::mix(i + 1)))[0];
        direction[i] = along ? gradient[i] / static_cast<float>(std::max(norm, 1e-12))
                             : unit / std::sqrt(static_cast<float>(count));
        if (i - first >= static_cast<size_t>(p.shape.elements()))
          direction[i] = 0.0f;  // padding rows are not parameters
        expected += static_cast<double>(gradient[i]) * direction[i];
      }
      // Two step sizes, extrapolated: the cubic term cancels, fp32 rounding of the loss (1e-7 / step) remains.
      const auto slope = [&](double h) {
        move(rig, base, direction, h);
        const double up = objective(rig, batches, z);
        move(rig, base, direction, -h);
        return (up - objective(rig, batches, z)) / (2 * h);
      };
      constexpr double h = 3e-3;
      const double measured = (4 * slope(h) - slope(2 * h)) / 3;
      CHECK(measured == Approx(expected).epsilon(2e-3).margin(3e-4));
    }
  }
}
