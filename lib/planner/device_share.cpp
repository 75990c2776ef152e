#include "planner/device_share.h"

#include <algorithm>
#include <cmath>

#include "config/model_facts.h"
#include "optim/optimizer.h"

namespace fp {
namespace {

bool narrow(const RunSpec& s) { return s.precision.compute == DType::bf16; }

// Bytes that an update of a parameter reads and writes: every slot, the gradient and, in bf16, the weights.
double moved_bytes(const RunSpec& s) {
  return 2 * saved_bytes(s.optimizer.kind, matrix_fraction(s.model)) + 4 + (narrow(s) ? 2 : 0);
}

}  // namespace

UpdateBytes update_bytes(const RunSpec& s) {
  const bool early = s.memory.offload.early_gradients;
  const double kept = s.precision.gradients == DType::bf16 ? 2 : 4, gradient = early ? 0 : kept;
  if (s.memory.offload.weights == Offload::host)
    return {.state = offloaded_bytes(s.optimizer.kind, matrix_fraction(s.model), s.precision.compute, true),
            .gradient = 0,
            .weights = 0,
            .gradient_in = kept,
            .weights_out = narrow(s) ? 2.0 : 0.0};
  // In fp32 the parameter itself is on the device, and makes the way with the gradient.
  return {.state = offloaded_bytes(s.optimizer.kind, matrix_fraction(s.model), s.precision.compute),
          .gradient = narrow(s) ? gradient : gradient + 4,
          .weights = narrow(s) ? 2.0 : 4.0};
}

UpdateRates update_rates(const RunSpec& s, const CostModel& costs) {
  constexpr double kMany = 1e9;  // parameters, so that overheads do not count
  const auto bytes = static_cast<int64_t>(kMany);
  const auto work = [&](double more) {
    return OpWork{name_of(s.optimizer.kind), 0, kMany * (moved_bytes(s) + more), 0, 0, 0, DType::f32};
  };
  UpdateRates r;
  r.link = kMany / costs.copy_seconds(bytes);
  r.device_update = kMany / costs.op_seconds(work(0));
  const double widening = s.precision.gradients == DType::bf16 ? 6 : 0;
  r.host_update = costs.copies_take_cores() ? r.device_update : kMany / costs.host_op_seconds(work(widening));
  return r;
}

double update_waits(const RunSpec& s, const CostModel& costs, double parameters) {
  constexpr double kMostSubgroups = 256;
  const double share = s.memory.offload.device_share;
  const double each = std::max(static_cast<double>(s.memory.offload.subgroup), parameters / kMostSubgroups);
  const auto whole = static_cast<size_t>(parameters / each);
  std::vector<int64_t> elements(whole, static_cast<int64_t>(each));
  if (const auto rest = static_cast<int64_t>(parameters - each * static_cast<double>(whole)); rest > 0)
    elements.push_back(rest);
  const UpdateTime t = simulate(interleaved_schedule(divide_subgroups(elements, share)), elements,
                                update_rates(s, costs), update_bytes(s));
  return t.total - t.device;
}

double best_device_share(const RunSpec& s, const CostModel& costs) {
  if (costs.copies_take_cores()) return 0;
  if (costs.cluster().host_update_gb_per_s <= 0) return 1;
  constexpr double kDigits = 1e4;
  return std::round(best_device_share(update_rates(s, costs), update_bytes(s)) * kDigits) / kDigits;
}

}  // namespace fp
