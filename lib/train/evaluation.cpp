#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fp {

EvaluationResult evaluate(Executor& executor, const ValidationSampler& sampler, int64_t micro_batch,
                          const Groups& groups, const std::function<void(uint64_t, Batch&)>& complete) {
  double sums[5] = {0, 0, 0, 0, 0};  // loss, units, bytes, margins, preferred
  Batch batch;
  // Ranks that have run out repeat the last batch, uncounted: all of them have to communicate equally often.
  const int64_t batches = (sampler.size() + micro_batch - 1) / micro_batch, ranks = groups.mesh.dp();
  for (int64_t i = groups.at.dp; i - groups.at.dp < batches; i += ranks) {
    const int64_t first = std::min(i, batches - 1) * micro_batch;
    sampler.fill(static_cast<uint64_t>(first), std::min(micro_batch, sampler.size() - first), batch);
    if (complete) complete(static_cast<uint64_t>(first), batch);
    const LossSums s = executor.evaluate(batch);
    if (i >= batches) continue;
    sums[0] += s.loss;
    sums[1] += static_cast<double>(s.units);
    sums[2] += static_cast<double>(s.target_bytes);
    sums[3] += s.margin;
    sums[4] += static_cast<double>(s.preferred);
  }
  groups.data->all_reduce(sums);
  EvaluationResult r;
  r.tokens = static_cast<int64_t>(sums[1]);
  r.loss = sums[0] / std::max(sums[1], 1.0);
  r.margin = sums[3] / std::max(sums[1], 1.0);
  r.accuracy = sums[4] / std::max(sums[1], 1.0);
  r.perplexity = std::exp(r.loss);
  r.bits_per_byte = sums[0] / std::numbers::ln2 / std::max(sums[2], 1.0);
  return r;
}

}  // namespace fp
