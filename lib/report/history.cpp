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
  const std::array<double, kChannels> values{m.loss,
                                             m.lr,
                                             m.grad_norm,
                                             m.tokens_per_s,
                                             m.mfu,
                                             m.step_ms,
                                             static_cast<double>(m.peak_bytes),
                                             m.accuracy.value_or(StepMetrics::kUnknown),
                                             m.margin.value_or(StepMetrics::kUnknown),
                                             m.widened_parameters.value_or(StepMetrics::kUnknown)};
  for (size_t i = 0; i < kChannels; ++i) bucket.channels[i].add(values[i]);
  speed_.add(m.tokens_per_s, m.step_ms);
  mfu_.add(m.mfu, m.step_ms);
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

bool History::knows_mfu() const {
  constexpr int64_t kFew = 3;
  int64_t known = 0;
  for (const Bucket& b : buckets_) known += b[Channel::mfu].count;
  return known >= kFew && buckets_.back()[Channel::mfu].count > 0;
}

std::vector<double> History::smoothed(Channel channel) const {
  constexpr double kReach = 10;  // half-lives
  std::vector<double> smooth;
  if (buckets_.empty()) return smooth;
  const double first = buckets_.front().middle(), longest = std::max(1.0, (buckets_.back().middle() - first) / 80);
  size_t begin = 0, end = 0;
  for (const Bucket& here : buckets_) {
    const double at = here.middle();
    // Short at first, while the curve falls fast.
    const double half_life = std::min((at - first) / 12, longest);
    while (at - buckets_[begin].middle() > kReach * half_life) ++begin;
    while (end < buckets_.size() && buckets_[end].middle() - at <= kReach * half_life) ++end;
    double sum = 0, weights = 0;
    for (size_t i = begin; i < end; ++i) {
      const Extent& e = buckets_[i][channel];
      const double distance = std::abs(buckets_[i].middle() - at);
      const double weight = distance > 0 ? std::exp2(-distance / half_life) : 1;
      sum += weight * e.sum;
      weights += weight * static_cast<double>(e.count);
    }
    const double before = smooth.empty() ? StepMetrics::kUnknown : smooth.back();
    smooth.push_back(weights > 0 ? sum / weights : before);
  }
  return smooth;
}

History read_history(const std::filesystem::path& metrics_file) {
  History history;
  for_each_step(metrics_file, [&](const StepMetrics& m) { history.add(m); });
  return history;
}

}  // namespace fp
