#include "inference/position_loss.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace fp {
namespace {

constexpr int64_t kFirstEnd = 64;
constexpr size_t kCompared = 4;  // sums of a comparison

std::vector<PositionRange> ranges_of(int64_t seq_len) {
  std::vector<PositionRange> ranges;
  int64_t begin = 0;
  for (int64_t end = kFirstEnd; end < seq_len; end *= 2) {
    ranges.push_back({begin, end});
    begin = end;
  }
  ranges.push_back({begin, seq_len});
  return ranges;
}

bool holds(const PositionRange& r, int64_t position) { return r.begin <= position && position < r.end; }

// Returns at how many positions of a range the target at this offset is, in samples that begin every `stride` tokens.
int64_t positions_in(const PositionRange& r, int64_t offset, int64_t stride) {
  const auto below = [&](int64_t end) { return (std::min(end, offset + 1) + stride - 1 - offset % stride) / stride; };
  return below(r.end) - below(r.begin);
}

}  // namespace

std::string PositionRange::label() const { return fmt::format("{}-{}", begin, end); }

ComparedRanges parse_compared_ranges(const std::string& option, std::string_view text, int64_t seq_len) {
  ComparedRanges ranges;
  const char* at = text.data();
  const char* const last = at + text.size();
  const auto number = [&](int64_t& n, char before) {
    if (before != '\0' && (at == last || *at++ != before)) return false;
    const auto read = std::from_chars(at, last, n);
    at = read.ptr;
    return read.ec == std::errc() && n >= 0;
  };
  if (!number(ranges[0].begin, '\0') || !number(ranges[0].end, '-') || !number(ranges[1].begin, ',') ||
      !number(ranges[1].end, '-') || at != last)
    throw ConfigError(fmt::format(
        "{} {}: legal: two ranges of positions BEGIN-END,BEGIN-END, such as 128-256,1024-4096", option, text));
  for (const PositionRange& r : ranges)
    if (r.length() <= 0 || r.end > seq_len)
      throw ConfigError(
          fmt::format("{} {}: the range {} has no positions, or some that samples lack: legal are ranges "
                      "from 0 to data.seq_len = {}, each with its end above its beginning",
                      option, text, r.label(), seq_len));
  return ranges;
}

void check_compared_ranges(const ComparedRanges& ranges, int64_t stride) {
  const int64_t longer = std::max(ranges[0].length(), ranges[1].length());
  if (stride > longer)
    throw ConfigError(
        fmt::format("a stride of {} tokens is too long to compare the positions {} and {}: not every "
                    "target would be in both; legal: up to {}",
                    stride, ranges[0].label(), ranges[1].label(), longer));
}

PositionLosses::PositionLosses(int64_t seq_len, int64_t passages, int64_t stride,
                               std::optional<ComparedRanges> compared)
    : ranges_(ranges_of(seq_len)),
      stride_(stride),
      compared_(compared),
      width_(2 * ranges_.size() + (compared ? kCompared : 0)),
      sums_(static_cast<size_t>(passages) * width_) {}

void PositionLosses::add(const ValidationSampler::Target& target, int64_t position, double loss) {
  const auto r = std::ranges::find_if(ranges_, [&](const PositionRange& range) { return holds(range, position); });
  const Ratio ratio = ratio_of(static_cast<size_t>(r - ranges_.begin()));
  sum(target.passage, ratio.loss) += loss;
  sum(target.passage, ratio.count) += 1;
  if (compared_) add_compared(target, position, loss);
}

// The offset of a target determines how many losses it has in a range. So each loss is added with its weight in the
// mean, and no losses are kept.
void PositionLosses::add_compared(const ValidationSampler::Target& target, int64_t position, double loss) {
  const size_t first = 2 * ranges_.size();
  for (const size_t i : {0, 1}) {
    const PositionRange &mine = (*compared_)[i], &other = (*compared_)[1 - i];
    if (!holds(mine, position) || positions_in(other, target.offset, stride_) == 0) continue;
    const double weight = 1.0 / static_cast<double>(positions_in(mine, target.offset, stride_));
    sum(target.passage, first + i) += weight * loss;
    sum(target.passage, first + 2) += (i == 0 ? weight : -weight) * loss;
    if (i == 0) sum(target.passage, first + 3) += weight;
  }
}

void PositionLosses::sum_over(const Groups& groups) {
  groups.pipeline->all_reduce(sums_);
  groups.tokens->all_reduce(sums_);
}

double PositionLosses::total(size_t i) const {
  double sum = 0;
  for (size_t at = i; at < sums_.size(); at += width_) sum += sums_[at];
  return sum;
}

std::optional<PositionLoss> PositionLosses::mean_of(const PositionRange& range, const Ratio& ratio) const {
  const double n = total(ratio.count), mean = total(ratio.loss) / n;
  double passages = 0, squares = 0;
  for (size_t passage = 0; passage < sums_.size(); passage += width_) {
    if (sums_[passage + ratio.count] == 0) continue;
    const double residual = sums_[passage + ratio.loss] - mean * sums_[passage + ratio.count];
    passages += 1;
    squares += residual * residual;
  }
  if (passages == 0) return std::nullopt;
  const double error =
      passages > 1 ? std::sqrt(squares * passages / (passages - 1)) / n : std::numeric_limits<double>::quiet_NaN();
  return PositionLoss{range, mean, error, std::llround(n)};
}

std::vector<PositionLoss> PositionLosses::means() const {
  std::vector<PositionLoss> all;
  for (size_t i = 0; i < ranges_.size(); ++i)
    if (const auto mean = mean_of(ranges_[i], ratio_of(i))) all.push_back(*mean);
  return all;
}

std::optional<PositionComparison> PositionLosses::comparison() const {
  if (!compared_) return std::nullopt;
  const size_t first = 2 * ranges_.size(), count = first + 3;
  const auto a = mean_of((*compared_)[0], {first, count}), b = mean_of((*compared_)[1], {first + 1, count}),
             difference = mean_of({}, {first + 2, count});
  if (!difference) return std::nullopt;
  int64_t passages = 0;
  for (size_t at = count; at < sums_.size(); at += width_) passages += sums_[at] > 0 ? 1 : 0;
  return PositionComparison{*a, *b, difference->loss, difference->standard_error, passages};
}

}  // namespace fp
