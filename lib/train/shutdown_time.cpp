#include "train/shutdown_time.h"

#include <algorithm>

namespace fp {
namespace {

constexpr size_t kSteps = 100, kSaves = 5;

void remember(std::deque<double>& list, double value, size_t most) {
  list.push_back(value);
  if (list.size() > most) list.pop_front();
}

double largest(const std::deque<double>& list) {
  return list.empty() ? 0 : *std::max_element(list.begin(), list.end());
}

}  // namespace

ShutdownTime::ShutdownTime(double checkpoint_bytes, int ranks, double measured)
    : first_save_s_(checkpoint_bytes / (measured > 0 ? measured : kSaveRate * ranks)) {}

void ShutdownTime::step_took(double seconds) { remember(steps_, seconds, kSteps); }
void ShutdownTime::save_took(double seconds) { remember(saves_, seconds, kSaves); }

double ShutdownTime::step_s() const { return largest(steps_); }
double ShutdownTime::save_s() const { return saves_.empty() ? first_save_s_ : largest(saves_); }

bool ShutdownTime::must_stop(double left, bool save_under_way, bool save_due) const {
  const int saves = 1 + (save_under_way ? 1 : 0) + (save_due ? 1 : 0);
  return left < step_s() + saves * save_s();
}

}  // namespace fp
