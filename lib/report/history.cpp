#include "report/history.h"

#include <algorithm>
#include <cmath>

namespace fp {

void Extent::add(double value) {
  if (!std::isfinite(value)) return;
  min = std::min(min, value);
  max = std::max(max, value);
  sum += value;
  ++count;
}

void Extent::add(const Extent& other) {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  sum += other.sum;
  count += other.count;
}

void History::add(const StepMetrics& m) {
  Bucket bucket{m.step, m.step, m.tokens, {}};
  const std::array<double, kChannels> values{
      m.loss, m.lr, m.grad_norm, m.tokens_per_s, m.mfu, m.step_ms, static_cast<double>(m.peak_bytes)};
  for (size_t i = 0; i < kChannels; ++i) bucket.channels[i].add(values[i]);
  ++steps_;
  if (!first_) first_ = m;
  last_ = m;
  if (!merging_) {
    buckets_.push_back(bucket);
  } else {
    append(buckets_, bucket);
  }
  if (buckets_.size() > kMaxBuckets) merge_buckets();
  if (m.val_loss && std::isfinite(*m.val_loss)) {
    evaluations_.push_back(m);
    if (!best_ || *m.val_loss < *best_->val_loss) best_ = m;
    if (evaluations_.size() > kMaxBuckets) thin_evaluations();
  }
  resumed_count_ += m.resumed ? 1 : 0;
  skipped_count_ += m.skipped ? 1 : 0;
  if (m.resumed && resumed_.size() < kMaxMarks) resumed_.push_back(m.step);
  if (m.skipped && skipped_.size() < kMaxMarks) skipped_.push_back(m.step);
}

// Appends a bucket, or merges it into the last one if the result is narrow enough.
void History::append(std::vector<Bucket>& to, const Bucket& b) const {
  Bucket* open = to.empty() ? nullptr : &to.back();
  const bool fits = open != nullptr &&
                    static_cast<double>(b.last - open->first + 1) <= allowed_width(static_cast<double>(open->first));
  if (!fits) return to.push_back(b);
  for (size_t i = 0; i < kChannels; ++i) open->channels[i].add(b.channels[i]);
  open->last = b.last;
  open->tokens = b.tokens;
}

// Maximum width of a bucket in steps: one of 500 columns of a linear axis or 200 of a logarithmic one, if that is less.
// Merging neighbours up to this width leaves at most 2 * 700 buckets.
double History::allowed_width(double step) const {
  const double first = static_cast<double>(std::max<int64_t>(first_->step, 1)), last = static_cast<double>(last_->step);
  return std::min((last - first) / 500, std::max(step, 1.0) * std::log(last / first) / 200);
}

void History::merge_buckets() {
  merging_ = true;
  std::vector<Bucket> merged;
  for (const Bucket& b : buckets_) append(merged, b);
  buckets_ = std::move(merged);
}

// Keeps the first evaluation of each bucket width, and the last one.
void History::thin_evaluations() {
  std::vector<StepMetrics> kept;
  for (const StepMetrics& e : evaluations_) {
    const bool close = !kept.empty() && static_cast<double>(e.step - kept.back().step + 1) <=
                                            allowed_width(static_cast<double>(kept.back().step));
    if (!close) kept.push_back(e);
  }
  if (kept.back().step != evaluations_.back().step) kept.push_back(evaluations_.back());
  evaluations_ = std::move(kept);
}

std::vector<double> History::smoothed(Channel channel) const {
  std::vector<double> smooth;
  if (buckets_.empty()) return smooth;
  const double longest = std::max(1.0, static_cast<double>(last_->step - first_->step) / 80);
  // Numerator and denominator decay together, so the average is unbiased from the first step on, also after gaps.
  double sum = 0, weight = 0, first = buckets_.front().middle(), previous = first;
  for (const Bucket& b : buckets_) {
    // Short at first, while the curve falls fast: a long half-life would lag behind it.
    const double half_life = std::clamp((b.middle() - first) / 12, 1.0, longest);
    const double decay = std::exp2(-(b.middle() - previous) / half_life);
    previous = b.middle();
    sum = sum * decay + b[channel].sum;
    weight = weight * decay + static_cast<double>(b[channel].count);
    smooth.push_back(weight > 0 ? sum / weight : StepMetrics::kUnknown);
  }
  return smooth;
}

History read_history(const std::filesystem::path& metrics_file) {
  History history;
  for_each_step(metrics_file, [&](const StepMetrics& m) { history.add(m); });
  return history;
}

}  // namespace fp
