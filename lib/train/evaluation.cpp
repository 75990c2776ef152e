#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fp {

EvaluationResult evaluate(Executor& executor, const ValidationSampler& sampler, int64_t micro_batch,
                          const Groups& groups) {
  double sums[3] = {0, 0, 0};  // loss, units, bytes
  Batch batch;
  for (int64_t first = 0; first < sampler.size(); first += micro_batch) {
    sampler.fill(static_cast<uint64_t>(first), std::min(micro_batch, sampler.size() - first), batch);
    const LossSums s = executor.evaluate(batch);
    sums[0] += s.loss;
    sums[1] += static_cast<double>(s.units);
    sums[2] += static_cast<double>(s.target_bytes);
  }
  groups.data->all_reduce_sum(sums);
  EvaluationResult r;
  r.tokens = static_cast<int64_t>(sums[1]);
  r.loss = sums[0] / std::max(sums[1], 1.0);
  r.perplexity = std::exp(r.loss);
  r.bits_per_byte = sums[0] / std::numbers::ln2 / std::max(sums[2], 1.0);
  return r;
}

}  // namespace fp
