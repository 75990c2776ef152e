#include "train/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/median.h"

namespace fp {
namespace {

constexpr size_t kWarmUp = 2;  // steps

// Empty for a value that was not predicted.
std::string row(const std::string& what, double predicted, double measured, int digits) {
  if (predicted <= 0) return "";
  return fmt::format("\n  {:<26}{:>14.{}f}{:>14.{}f}{:>+9.1f} %", what, predicted, digits, measured, digits,
                     100 * (measured / predicted - 1));
}

}  // namespace

int64_t sent_bytes(const TrafficTable& traffic) {
  int64_t sum = 0;
  for (const auto& [key, t] : traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv) sum += t.bytes;
  return sum;
}

std::string compare_with_prediction(const PredictedRun& p, const MeasuredRun& t) {
  if (t.step_ms.empty()) return {};
  std::vector<double> steps = t.step_ms;
  if (steps.size() > kWarmUp) steps.erase(steps.begin(), steps.begin() + kWarmUp);
  std::string text = fmt::format("  {:<26}{:>14}{:>14}", "", "predicted", "measured");
  text += row(fmt::format("step, ms (median of {})", steps.size()), p.forecast ? p.forecast->step_s * 1e3 : 0,
              median(steps), 2);
  text += row("peak memory, MiB", static_cast<double>(p.peak_bytes) / (1 << 20),
              static_cast<double>(t.peak_bytes) / (1 << 20), 1);
  text += row("sent in a step, MiB", static_cast<double>(p.sent_bytes) / (1 << 20),
              static_cast<double>(t.sent_bytes) / (1 << 20), 3);
  return text;
}

}  // namespace fp
