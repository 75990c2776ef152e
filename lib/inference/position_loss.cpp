#include "inference/position_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fp {
namespace {

constexpr int64_t kFirstEnd = 64;

// Returns the tokens before `end` of each row, of which only those from `begin` on are targets.
Batch positions_of(const Batch& b, int64_t begin, int64_t end) {
  Batch part;
  part.resize(b.n / b.rows_per_sample, end, b.rows_per_sample);
  part.sample_ids = b.sample_ids;
  for (int64_t row = 0; row < b.n; ++row) {
    const auto copy = [&](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
      std::copy_n(from.begin() + row * b.seq_len, end, to.begin() + row * end);
    };
    copy(b.tokens, part.tokens);
    copy(b.targets, part.targets);
    copy(b.positions, part.positions);
    copy(b.doc_start, part.doc_start);
    std::fill_n(part.targets.begin() + row * end, begin, kIgnoredTarget);
  }
  return part;
}

}  // namespace

std::string PositionLoss::label() const { return fmt::format("{}-{}", begin, end); }

PositionLosses::PositionLosses(int64_t seq_len) {
  for (int64_t end = kFirstEnd; end < seq_len; end *= 2) ends_.push_back(end);
  ends_.push_back(seq_len);
  sums_.resize(ends_.size());
}

void PositionLosses::add(Executor& executor, const Batch& batch, bool counts) {
  int64_t begin = 0;
  for (size_t i = 0; i < ends_.size(); begin = ends_[i++]) {
    const Batch part = positions_of(batch, begin, ends_[i]);
    const std::vector<double> losses = executor.row_losses(part);
    for (int64_t row = 0; counts && row < part.n; ++row) {
      const auto first = part.targets.begin() + row * part.seq_len;
      const double l = losses[static_cast<size_t>(row)];
      const auto n = static_cast<double>(part.seq_len - std::count(first, first + part.seq_len, kIgnoredTarget));
      if (n == 0) continue;
      Sums& s = sums_[i];
      s.samples += 1;
      s.l += l;
      s.n += n;
      s.ll += l * l;
      s.ln += l * n;
      s.nn += n * n;
    }
  }
}

void PositionLosses::sum_over(const Groups& groups) {
  std::vector<double> values;
  // All ranks that share a sample have its sums: one of them adds them.
  for (Sums& s : sums_)
    for (const double* number : s.numbers()) values.push_back(groups.at.sp == 0 ? *number : 0.0);
  groups.tokens->all_reduce(values);
  auto value = values.begin();
  for (Sums& s : sums_)
    for (double* number : s.numbers()) *number = *value++;
}

// The mean is a ratio, L / N; its variance is that of the residuals l - mean * n of the samples.
std::vector<PositionLoss> PositionLosses::means() const {
  std::vector<PositionLoss> all;
  int64_t begin = 0;
  for (size_t i = 0; i < ends_.size(); begin = ends_[i++]) {
    const Sums& s = sums_[i];
    if (s.n == 0) continue;
    const double mean = s.l / s.n, squares = s.ll - 2 * mean * s.ln + mean * mean * s.nn;
    const double error = s.samples > 1 ? std::sqrt(std::max(squares, 0.0) * s.samples / (s.samples - 1)) / s.n
                                       : std::numeric_limits<double>::quiet_NaN();
    all.push_back({begin, ends_[i], mean, error, static_cast<int64_t>(s.n)});
  }
  return all;
}

}  // namespace fp
