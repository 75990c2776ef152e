// The metrics of a run, downsampled while they are read: plots of a million steps need only some hundred points.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "report/metrics.h"

namespace fp {

enum class Channel { loss, lr, grad_norm, tokens_per_s, mfu, step_ms, peak_bytes, accuracy, margin, widened };
constexpr size_t kChannels = 10;

// Minimum, maximum, sum and count of the finite values of neighbouring steps.
struct Extent {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t count = 0;

  void add(double value);
  void add(const Extent& other);
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : StepMetrics::kUnknown; }
};

// Weighted mean of the finite values.
struct WeightedMean {
  double sum = 0, weight = 0;

  void add(double value, double of_value) {
    if (!std::isfinite(value) || !(of_value > 0)) return;
    sum += value * of_value;
    weight += of_value;
  }
  double mean() const { return weight > 0 ? sum / weight : StepMetrics::kUnknown; }
};

// Summary of the steps from `first` to `last`.
struct Bucket {
  int64_t first = 0, last = 0;
  int64_t tokens = 0;  // trained on up to the last step
  std::array<Extent, kChannels> channels;

  const Extent& operator[](Channel c) const { return channels[static_cast<size_t>(c)]; }
  double middle() const { return 0.5 * static_cast<double>(first + last); }
};

class History {
 public:
  // Adds a step; steps must increase.
  void add(const StepMetrics& metrics);

  // At most kMaxBuckets buckets, fine enough for linear and logarithmic step axes; in short runs each holds one step.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // The steps with an evaluation, downsampled in the same way.
  const std::vector<StepMetrics>& evaluations() const { return evaluations_; }
  // Returns the moving average of a channel, one value per bucket, over the steps before and after it, so that it does
  // not lag. Weights halve with a distance that grows with the step, up to 1/80 of the run, and add up to 1 also at the
  // ends, where one side is missing. Where no value is near, the
  // average of the bucket before is repeated.
  std::vector<double> smoothed(Channel channel) const;

  // Return the tokens per second and the MFU of all steps together: means weighted by the time of a step.
  double tokens_per_s() const { return speed_.mean(); }
  double mfu() const { return mfu_.mean(); }

  // True if the steps train on pairs of answers (DPO).
  bool is_of_pairs() const { return last_ && last_->accuracy.has_value(); }
  // True if the steps limit the error of quantized gradients.
  bool limits_errors() const { return last_ && last_->widened_parameters.has_value(); }
  // True if MFU is known for the last steps, and for more than a few.
  bool knows_mfu() const;

  int64_t steps() const { return steps_; }  // lines read
  const std::optional<StepMetrics>& first() const { return first_; }
  const std::optional<StepMetrics>& last() const { return last_; }
  const std::optional<StepMetrics>& best_evaluation() const { return best_; }  // lowest validation loss
  // The first kMaxMarks resumed and skipped steps, and the number of all of them.
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

  bool merging_ = false;  // the run is long: buckets hold several steps
  std::vector<Bucket> buckets_;
  std::vector<StepMetrics> evaluations_;
  std::vector<int64_t> resumed_, skipped_;
  int64_t steps_ = 0, skipped_count_ = 0, resumed_count_ = 0;
  std::optional<StepMetrics> first_, last_, best_;
  WeightedMean speed_, mfu_;
};

// Reads metrics.jsonl. Throws the errors of for_each_step.
History read_history(const std::filesystem::path& metrics_file);

}  // namespace fp
