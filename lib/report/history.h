// A run's metrics, thinned out as they are read: a page or a picture of a million steps needs some hundred points.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "report/metrics.h"

namespace fp {

enum class Channel { loss, lr, grad_norm, tokens_per_s, mfu, step_ms, peak_bytes };
constexpr size_t kChannels = 7;

// Extremes and sum of the finite values of neighbouring steps.
struct Extent {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t count = 0;

  void add(double value);
  void add(const Extent& other);
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : StepMetrics::kUnknown; }
};

struct Bucket {
  int64_t first = 0, last = 0;  // steps
  int64_t tokens = 0;           // at the last step
  std::array<Extent, kChannels> channels;

  const Extent& operator[](Channel c) const { return channels[static_cast<size_t>(c)]; }
  double middle() const { return 0.5 * static_cast<double>(first + last); }
};

class History {
 public:
  // Steps in growing order.
  void add(const StepMetrics& metrics);

  // At most kMaxBuckets, fine enough for a linear and for a logarithmic step axis; one step each in short runs.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // The steps that evaluated, thinned out in the same way.
  const std::vector<StepMetrics>& evaluations() const { return evaluations_; }
  // Exponential moving average of a channel, one value a bucket; the half-life grows with the step, to an 80th of
  // the run.
  std::vector<double> smoothed(Channel channel) const;

  int64_t steps() const { return steps_; }  // lines read
  const std::optional<StepMetrics>& first() const { return first_; }
  const std::optional<StepMetrics>& last() const { return last_; }
  const std::optional<StepMetrics>& best_evaluation() const { return best_; }  // lowest validation loss
  // The first kMaxMarks of each kind, and how many there were.
  const std::vector<int64_t>& resumed_steps() const { return resumed_; }
  const std::vector<int64_t>& skipped_steps() const { return skipped_; }
  int64_t skipped_count() const { return skipped_count_; }
  int64_t resumed_count() const { return resumed_count_; }

  static constexpr size_t kMaxBuckets = 2000;
  static constexpr size_t kMaxMarks = 100;

 private:
  double allowed_width(double step) const;
  void append(std::vector<Bucket>& to, const Bucket& bucket) const;
  void merge_buckets();
  void thin_evaluations();

  bool merging_ = false;  // the run is long: neighbours share buckets
  std::vector<Bucket> buckets_;
  std::vector<StepMetrics> evaluations_;
  std::vector<int64_t> resumed_, skipped_;
  int64_t steps_ = 0, skipped_count_ = 0, resumed_count_ = 0;
  std::optional<StepMetrics> first_, last_, best_;
};

// Reads metrics.jsonl; errors as for_each_step.
History read_history(const std::filesystem::path& metrics_file);

}  // namespace fp
