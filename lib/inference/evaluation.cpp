#include "inference/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace fp {
namespace {

class Evaluation {
 public:
  Evaluation(Executor& executor, const ValidationSampler& sampler, const Groups& groups,
             const EvaluationOptions& options)
      : executor_(executor),
        sampler_(sampler),
        micro_batch_(options.micro_batch),
        groups_(groups),
        options_(options),
        together_(static_cast<size_t>(executor.evaluation_batches())) {
    if (options.by_position)
      positions_.emplace(sampler.seq_len(), sampler.passages(), sampler.stride(), options.compare);
  }

  // Returns the sums over the samples [begin, end) on all ranks. Batches that run together never mix ranges, so only
  // the last of them can be smaller, as the dry run assumes.
  LossSums sums_of(int64_t begin, int64_t end) {
    const int64_t batches = (end - begin + micro_batch_ - 1) / micro_batch_, ranks = groups_.mesh.dp();
    const int64_t rounds = (batches + ranks - 1) / ranks;
    LossSums total;
    for (int64_t round = 0; round < rounds;) {
      if (begun_ && options_.stop && options_.stop()) stopped_ = true;
      if (stopped_) break;
      begun_ = true;
      const int64_t first_round = round;
      size_t n = 0;
      for (; n < together_.size() && round < rounds; ++n, ++round) {
        // Ranks without batches left repeat the last one, uncounted: all must take part in the same collectives.
        const int64_t batch = std::min(round * ranks + groups_.at.dp, batches - 1);
        load(begin + batch * micro_batch_, end, together_[n]);
      }
      const auto counts = [&](size_t i) {
        return (first_round + static_cast<int64_t>(i)) * ranks + groups_.at.dp < batches;
      };
      Executor::OnTargets on_targets;
      if (positions_)
        on_targets = [&](size_t i, std::span<const TargetLoss> targets) {
          if (counts(i)) add_positions(together_[i], targets);
        };
      const std::vector<LossSums> losses = executor_.evaluate(std::span(together_).first(n), on_targets);
      for (size_t i = 0; i < n; ++i)
        if (counts(i)) total += losses[i];
      if (options_.on_progress) options_.on_progress(std::min(begin + round * ranks * micro_batch_, end));
    }
    total.sum_over(groups_);
    return total;
  }

  void end(EvaluationResult& result) {
    result.stopped = stopped_;
    if (!positions_) return;
    positions_->sum_over(groups_);
    result.positions = positions_->means();
    result.comparison = positions_->comparison();
  }

 private:
  void add_positions(const Batch& batch, std::span<const TargetLoss> targets) {
    for (const TargetLoss& t : targets)
      positions_->add(sampler_.target(batch.sample_ids[static_cast<size_t>(t.row)], t.position), t.position, t.loss);
  }
  void load(int64_t first, int64_t end, Batch& batch) const {
    sampler_.fill(static_cast<uint64_t>(first), std::min(micro_batch_, end - first), batch);
    if (options_.complete) options_.complete(static_cast<uint64_t>(first), batch);
  }

  Executor& executor_;
  const ValidationSampler& sampler_;
  const int64_t micro_batch_;
  const Groups& groups_;
  const EvaluationOptions& options_;
  std::vector<Batch> together_;
  bool begun_ = false, stopped_ = false;
  std::optional<PositionLosses> positions_;
};

HeldOutLoss means_of(const LossSums& total) {
  HeldOutLoss r;
  const auto units = std::max(static_cast<double>(total.units), 1.0);
  r.tokens = total.units;
  r.loss = total.loss / units;
  r.margin = total.margin / units;
  r.accuracy = static_cast<double>(total.preferred) / units;
  r.perplexity = std::exp(r.loss);
  r.bits_per_byte = total.loss / std::numbers::ln2 / std::max(static_cast<double>(total.target_bytes), 1.0);
  return r;
}

}  // namespace

EvaluationResult evaluate(Executor& executor, const ValidationSampler& sampler, const Groups& groups,
                          const EvaluationOptions& options) {
  Evaluation evaluation(executor, sampler, groups, options);
  const std::vector<std::string> labels = sampler.labels();
  EvaluationResult result;
  LossSums total;
  for (size_t d = 0; d < labels.size(); ++d) {
    const auto [begin, end] = sampler.samples_of(d);
    if (begin == end) continue;
    const LossSums sums = evaluation.sums_of(begin, end);
    total += sums;
    if (labels.size() > 1) result.datasets.emplace_back(labels[d], means_of(sums));
  }
  static_cast<HeldOutLoss&>(result) = means_of(total);
  evaluation.end(result);
  return result;
}

}  // namespace fp
