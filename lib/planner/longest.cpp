#include "planner/longest.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "planner/candidates.h"
#include "planner/savings.h"

namespace fp {
namespace {

constexpr int64_t kShortest = 1024, kLongest = int64_t{1} << 27;

RunSpec with_length(RunSpec s, int64_t tokens) {
  s.data.seq_len = tokens;
  if (!s.model.traits().learned_positions) s.model.max_position = std::max(s.model.max_position, tokens);
  return s;
}

class LengthSearch {
 public:
  LengthSearch(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator)
      : spec_(spec), ranks_(ranks), cluster_(cluster), estimator_(estimator) {}

  Longest run() {
    int64_t fits = 0;
    const int64_t end = spec_.model.traits().learned_positions ? spec_.model.max_position : kLongest;
    for (int64_t next = std::min(kShortest, end); fits < end && try_length(next); next = std::min(2 * fits, end))
      fits = next;
    while (fits > 0 && result_.too_long - fits > std::max(kShortest, fits / 16)) {
      const int64_t middle = (fits + result_.too_long) / 2 / kShortest * kShortest;
      if (middle <= fits) break;
      if (try_length(middle)) fits = middle;
    }
    result_.tokens = fits;
    if (fits > 0) result_.estimate = estimator_.estimate(best_, ranks_);
    return result_;
  }

 private:
  // Tries the savings, the cheapest first; what did not fit a shorter sequence is not tried again.
  bool try_length(int64_t tokens) {
    const RunSpec s = with_length(spec_, tokens);
    RankMemory last;
    for (const Plan& p : savings(s, plan_of(s), cluster_)) {
      const auto failed = failed_.find(p);
      if ((failed != failed_.end() && failed->second <= tokens) || !is_legal(s, p, ranks_)) continue;
      const RunSpec planned = with_plan(s, p);
      const RankMemory memory = estimator_.memory(planned, ranks_);
      if (memory.fits()) {
        best_ = planned;
        return true;
      }
      last = memory;
      failed_[p] = tokens;
    }
    result_.too_long = tokens;
    if (last.available > 0) result_.beyond = last;
    return false;
  }

  const RunSpec& spec_;
  const int ranks_;
  const ClusterSpec& cluster_;
  PlanEstimator& estimator_;
  RunSpec best_;
  std::map<Plan, int64_t> failed_;  // shortest sequence that did not fit
  Longest result_;
};

}  // namespace

Longest longest_sequence(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator) {
  return LengthSearch(spec, ranks, cluster, estimator).run();
}

}  // namespace fp
