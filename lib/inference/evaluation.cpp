#include "inference/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"

namespace fp {

EvaluationResult evaluate(Executor& executor, const ValidationSampler& sampler, int64_t micro_batch,
                          const Groups& groups, const std::function<void(uint64_t, Batch&)>& complete) {
  std::vector<Batch> together(static_cast<size_t>(executor.evaluation_batches()));
  // Ranks without batches left repeat the last one, uncounted: all must take part in the same collectives.
  const int64_t batches = (sampler.size() + micro_batch - 1) / micro_batch, ranks = groups.mesh.dp();
  const int64_t rounds = (batches + ranks - 1) / ranks;
  LossSums total;
  for (int64_t round = 0; round < rounds;) {
    follow_load();
    const int64_t begin = round;
    size_t n = 0;
    for (; n < together.size() && round < rounds; ++n, ++round) {
      const int64_t first = std::min(round * ranks + groups.at.dp, batches - 1) * micro_batch;
      sampler.fill(static_cast<uint64_t>(first), std::min(micro_batch, sampler.size() - first), together[n]);
      if (complete) complete(static_cast<uint64_t>(first), together[n]);
    }
    const std::vector<LossSums> losses = executor.evaluate(std::span(together).first(n));
    for (size_t i = 0; i < n; ++i)
      if ((begin + static_cast<int64_t>(i)) * ranks + groups.at.dp < batches) total += losses[i];
  }
  total.sum_over(groups);
  EvaluationResult r;
  const auto units = std::max(static_cast<double>(total.units), 1.0);
  r.tokens = total.units;
  r.loss = total.loss / units;
  r.margin = total.margin / units;
  r.accuracy = static_cast<double>(total.preferred) / units;
  r.perplexity = std::exp(r.loss);
  r.bits_per_byte = total.loss / std::numbers::ln2 / std::max(static_cast<double>(total.target_bytes), 1.0);
  return r;
}

}  // namespace fp
