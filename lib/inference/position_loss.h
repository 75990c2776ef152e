// The loss of held-out text by position: how much a model gains from a longer context.
//
// A target at position p of its sample is predicted from the p + 1 tokens before it. Different ranges of positions hold
// different text, which varies more than what a longer context gains. Where samples overlap, a target has a loss at
// several positions, so that two ranges can be compared over the same targets.
//
// Losses of neighbouring tokens are correlated, so standard errors are those of the differences between passages of
// text: of a mean L / N over passages with losses l and numbers of targets n, that of the residuals l - n L / N.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/sampling/sampler.h"
#include "exec/executor.h"

namespace fp {

// The positions [begin, end) of a sample.
struct PositionRange {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
  std::string label() const;  // "128-256"
};

// The mean loss of the targets of a range.
struct PositionLoss : PositionRange {
  double loss = 0;            // nats per token
  double standard_error = 0;  // of `loss`; NaN with fewer than two passages
  int64_t tokens = 0;
};

// The ranges whose losses are compared.
using ComparedRanges = std::array<PositionRange, 2>;

// Compares the losses of the same targets in two ranges of positions. The loss of a target in a range is the mean over
// its positions there. `first`, `second` and `difference` (first minus second) are means over the targets that are in
// both ranges.
struct PositionComparison {
  PositionLoss first, second;
  double difference = 0;
  double standard_error = 0;  // of `difference`
  int64_t passages = 0;
};

// Parses "128-256,1024-4096". Throws ConfigError that names `option` if the text does not have this form, or if a range
// is empty or ends after seq_len.
ComparedRanges parse_compared_ranges(const std::string& option, std::string_view text, int64_t seq_len);
// Throws ConfigError unless each target that is in the shorter range in one sample is in the longer range in another,
// if samples begin every `stride` tokens.
void check_compared_ranges(const ComparedRanges&, int64_t stride);

class PositionLosses {
 public:
  // The ranges of samples of seq_len tokens end at the powers of two from 64 on, and at seq_len. Passages are numbered
  // below `passages`; samples begin every `stride` tokens of a stream.
  PositionLosses(int64_t seq_len, int64_t passages, int64_t stride, std::optional<ComparedRanges> compared = {});

  // Adds the loss of a target, once for each sample that has it.
  void add(const ValidationSampler::Target&, int64_t position, double loss);
  // Adds up the sums of all ranks of the token and pipeline groups, on each of them.
  void sum_over(const Groups&);
  // Returns the ranges that have targets.
  std::vector<PositionLoss> means() const;
  // Returns the comparison of the ranges; nothing if there are none or no target is in both.
  std::optional<PositionComparison> comparison() const;

 private:
  // Index of a sum among those of a passage: of losses, and of numbers of targets.
  struct Ratio {
    size_t loss, count;
  };
  Ratio ratio_of(size_t range) const { return {2 * range, 2 * range + 1}; }
  double& sum(int64_t passage, size_t i) { return sums_[static_cast<size_t>(passage) * width_ + i]; }
  double total(size_t i) const;
  // Returns the mean of a range and its standard error; without targets, none.
  std::optional<PositionLoss> mean_of(const PositionRange&, const Ratio&) const;
  void add_compared(const ValidationSampler::Target&, int64_t position, double loss);

  std::vector<PositionRange> ranges_;
  int64_t stride_;
  std::optional<ComparedRanges> compared_;
  size_t width_;  // sums of a passage: loss and count of each range, then first, second, difference and count
  std::vector<double> sums_;  // [passages, width]
};

}  // namespace fp
