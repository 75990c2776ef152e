#include "train/shutdown_time.h"

#include <algorithm>

namespace fp {
namespace {

constexpr size_t kSteps = 100, kEvaluations = 5, kSaves = 5;

void remember(std::deque<double>& list, double value, size_t most) {
  list.push_back(value);
  if (list.size() > most) list.pop_front();
}

double largest(const std::deque<double>& list) {
  return list.empty() ? 0 : *std::max_element(list.begin(), list.end());
}

}  // namespace

ShutdownTime::ShutdownTime(double checkpoint_bytes, int ranks, double measured)
    : ranks_(ranks), first_save_s_(checkpoint_bytes / (measured > 0 ? measured : kSaveRate * ranks)) {}

void ShutdownTime::step_took(double seconds) { remember(steps_, seconds, kSteps); }
void ShutdownTime::evaluation_took(double seconds) { remember(evaluations_, seconds, kEvaluations); }
void ShutdownTime::save_took(double seconds) { remember(saves_, seconds, kSaves); }

void ShutdownTime::earlier_save_took(double seconds, std::optional<int> ranks) {
  save_took(ranks ? seconds * std::max(1.0, static_cast<double>(*ranks) / ranks_) : std::max(seconds, first_save_s_));
}

double ShutdownTime::step_s() const { return largest(steps_); }
double ShutdownTime::save_s() const { return saves_.empty() ? first_save_s_ : largest(saves_); }

double ShutdownTime::evaluation_s() const { return largest(evaluations_); }

bool ShutdownTime::must_stop(double left, bool save_under_way, const Due& due) const {
  const int saves = 1 + (save_under_way ? 1 : 0) + (due.save ? 1 : 0);
  return left < (due.evaluation ? evaluation_s() : 0) + (due.step ? step_s() : 0) + saves * save_s();
}

}  // namespace fp
