#include "optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace fp {
namespace {

double half_cosine(double x) { return 0.5 * (1.0 + std::cos(std::numbers::pi * x)); }

double wsd_shape(DecayShape shape, double x) {
  switch (shape) {
    case DecayShape::minus_sqrt:
      return 1.0 - std::sqrt(x);
    case DecayShape::linear:
      return 1.0 - x;
    case DecayShape::cosine:
      return half_cosine(x);
    case DecayShape::exponential:
      return 2.0 * std::pow(0.5, x) - 1.0;
  }
  throw InternalError("unknown decay shape");
}

}  // namespace

double learning_rate(const ScheduleSection& s, double lr, int64_t step, int64_t steps) {
  if (step < s.warmup_steps) return lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  int64_t begin = s.warmup_steps, end = s.decay_steps > 0 ? s.decay_steps : steps;
  if (s.kind == LearningRateSchedule::wsd) {
    const int64_t length = s.decay_steps > 0 ? s.decay_steps : steps / 5;
    end = steps;
    begin = std::max(s.warmup_steps, steps - length);
  }
  // x reaches 1 on the last step of the decay.
  const double span = static_cast<double>(std::max<int64_t>(1, end - 1 - begin));
  const double x = std::clamp(static_cast<double>(step - begin) / span, 0.0, 1.0);
  const double low = s.min_lr_ratio * lr;
  switch (s.kind) {
    case LearningRateSchedule::constant:
      return lr;
    case LearningRateSchedule::linear:
      return lr + (low - lr) * x;
    case LearningRateSchedule::cosine:
      return low + (lr - low) * half_cosine(x);
    case LearningRateSchedule::wsd:
      return low + (lr - low) * wsd_shape(s.decay_shape, x);
  }
  throw InternalError("unknown learning-rate schedule");
}

}  // namespace fp
