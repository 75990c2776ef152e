#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/human_text.h"
#include "base/stopwatch.h"
#include "config/open_keys.h"
#include "planner/candidates.h"
#include "planner/estimate_cache.h"
#include "planner/savings.h"

namespace fp {
namespace {

// Fractions of the limits until which quick estimates are made, and until which the best plan is chosen.
constexpr double kShareOfQuick = 0.6, kShareOfBest = 0.7;
constexpr double kPatience = 3;     // times the limits, as long as no plan that fits is known
constexpr size_t kMissed = 2;       // number of faster plans shown that do not fit
constexpr double kWithinReach = 2;  // largest memory fraction of a faster plan that is shown
// By how much quantized gradients must be faster to be chosen: less is not worth their errors.
constexpr double kWorthQuantizing = 0.03;

class Searcher {
 public:
  Searcher(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator,
           const SearchLimits& limits)
      : spec_(spec),
        ranks_(ranks),
        cluster_(cluster),
        limits_(limits),
        candidates_(spec, ranks, cluster),
        estimate_cache_(spec, ranks, estimator) {}

  Search run() {
    std::vector<Plan> leads = candidates_.leads();
    if (leads.empty()) leads = candidates_.leads(true);  // to report how much memory is missing
    result_.leads = static_cast<int>(leads.size());
    expand(ordered(leads));
    if (estimate_cache_.ranking().empty()) refuse();
    choose();
    if (!result_.best) find_closest();
    while (result_.best) {
      result_.alternatives.clear();
      result_.remarks.clear();
      if (quantized_) list_quantized();
      list_missed();
      list_alternatives();
      if (promote()) {
        if (!keep_best_if_it_fits()) choose();
      } else if (!prefer_exact_gradients()) {
        break;
      }
    }
    result_.quick_estimates = estimate_cache_.quick_estimates();
    result_.estimates = estimate_cache_.estimates();
    return std::move(result_);
  }

 private:
  struct Lead {
    double least;  // seconds of its fastest variant that may fit, without any bubble
    Plan plan;
  };

  bool spent(double share) const { return thread_seconds() - start_ > share * limits_.seconds; }

  std::string seconds_limit() const { return fmt::format("{:g} seconds of processor time", limits_.seconds); }

  [[noreturn]] void refuse() const {
    if (!estimate_cache_.first_error().empty()) throw ConfigError(estimate_cache_.first_error());
    throw ConfigError(fmt::format(
        "no values of the keys that parallel.auto leaves open make a legal plan for {} rank{}: the degrees that are "
        "written must divide them, and train.global_batch = {} must divide by parallel.data x train.micro_batch{}",
        ranks_, ranks_ == 1 ? "" : "s", spec_.train.global_batch, written_micro_batch(spec_)));
  }

  // A guess of how slow a plan is, which orders them in case the time runs out: groups that span nodes and pipelines
  // with few micro-batches are slow.
  double slowness(const Plan& p) const {
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double bubble = real(p.pipeline - 1) * real(p.data * p.micro_batch) / real(spec_.train.global_batch);
    const bool leaves = p.tensor * p.sequence > cluster_.ranks_per_node;
    return (1 + bubble) * (1 + 0.05 * std::log2(real(p.tensor * p.sequence))) * (leaves ? 2 : 1);
  }

  // Whether a plan is slower than the best even if both quick estimates have the largest error.
  bool slower_than_best(double seconds) const {
    return seconds * (1 - kQuickEstimateError) > fastest_sure_ * (1 + kQuickEstimateError);
  }

  // Returns the leads that may become the best, most promising first.
  std::vector<Lead> ordered(std::vector<Plan> plans) {
    std::stable_sort(plans.begin(), plans.end(),
                     [&](const Plan& a, const Plan& b) { return slowness(a) < slowness(b); });
    std::vector<Lead> leads;
    for (const Plan& p : plans) {
      if (!estimate_cache_.none() && spent(kShareOfQuick / 2)) {
        result_.limit = seconds_limit();
        break;
      }
      const Estimate* first = estimate_cache_.quick_estimate(p);
      if (first == nullptr || slower_than_best(first->time.total - first->time.bubble)) continue;
      double least = std::numeric_limits<double>::infinity();
      expand_memory(p, [&](const Estimate& e) { least = std::min(least, e.time.total - e.time.bubble); });
      if (least < std::numeric_limits<double>::infinity()) leads.push_back({least, p});
    }
    std::stable_sort(leads.begin(), leads.end(), [](const Lead& a, const Lead& b) { return a.least < b.least; });
    return leads;
  }

  void expand(const std::vector<Lead>& leads) {
    for (const Lead& lead : leads) {
      if (slower_than_best(lead.least)) return;
      if (spent(kShareOfQuick)) {
        result_.limit = seconds_limit();
        return;
      }
      for (const Plan& schedule : candidates_.schedules(lead.plan)) expand_memory(schedule, [](const Estimate&) {});
    }
  }

  // Estimates variants with less memory until one surely fits, as further ones are no faster. Visits those that may
  // fit.
  template <class Visit>
  void expand_memory(const Plan& plan, const Visit& visit) {
    std::vector<Plan> sure;
    for (const Plan& p : candidates_.with_less_memory(plan)) {
      if (std::any_of(sure.begin(), sure.end(), [&](const Plan& s) { return uses_less_memory(p, s); })) continue;
      const Estimate* e = estimate_cache_.quick_estimate(p);
      if (e == nullptr || memory_fraction(e->memory) > kPerhaps) continue;
      visit(*e);
      for (const Plan& sibling : candidates_.with_more_memory(p)) note(estimate_cache_.quick_estimate(sibling));
      if (note(e)) sure.push_back(p);
    }
  }

  // Returns whether the plan surely fits, and if so, records its time.
  bool note(const Estimate* e) {
    if (e == nullptr || memory_fraction(e->memory) > kSurely) return false;
    fastest_sure_ = std::min(fastest_sure_, e->time.total);
    return true;
  }

  bool may_estimate(double share = 1) const {
    return estimate_cache_.estimates() < std::ceil(share * limits_.estimates) && !spent(share);
  }

  // Returns the next plan without an exact estimate that could be the best.
  const Choice* next() const {
    for (const Choice* c : estimate_cache_.ranking()) {
      if (c->exact || is_ruled_out(c->plan) || estimate_cache_.likely_memory_fraction(*c) > kPerhaps) continue;
      const bool hopeless =
          result_.best && c->estimate.time.total * (1 - kQuickEstimateError) >= result_.best->estimate.time.total;
      return hopeless ? nullptr : c;
    }
    return nullptr;
  }

  void estimate_best() {
    while (const Choice* c = next()) {
      const bool enough = !may_estimate(kShareOfBest);
      if (enough)
        result_.limit = spent(kShareOfBest) ? seconds_limit()
                                            : fmt::format("{} exact estimate{}", estimate_cache_.estimates(),
                                                          estimate_cache_.estimates() == 1 ? "" : "s");
      if (enough && (result_.best || spent(kPatience))) return;
      const Choice& now = estimate_cache_.exact_estimate(c->plan);
      if (now.estimate.ranks == 0) continue;
      if (!now.estimate.memory.fits())
        for (const Plan& p : candidates_.with_less_memory(now.plan)) estimate_cache_.quick_estimate(p);
      else if (!result_.best || now.estimate.time.total < result_.best->estimate.time.total)
        result_.best = now;
    }
  }

  void find_closest() {
    const std::vector<const Choice*> all = estimate_cache_.ranking();
    if (all.empty()) return;
    const auto least = std::min_element(all.begin(), all.end(), [](const Choice* a, const Choice* b) {
      return a->estimate.memory.missing() < b->estimate.memory.missing();
    });
    result_.closest = estimate_cache_.exact_estimate((*least)->plan);
  }

  void choose() {
    do estimate_best();
    while (result_.best && !keep_best_if_it_fits());
  }

  // Computes the memory of the best plan on every rank exactly. If it does not fit, the best plan becomes the fastest
  // known one that seems to, or none. Returns whether it fits, so that the best plan stays.
  bool keep_best_if_it_fits() {
    result_.best->estimate.memory = estimate_cache_.exact_memory(result_.best->plan);
    if (result_.best->estimate.memory.fits()) return true;
    result_.best.reset();
    const auto wanted = [&](const Plan& p) { return !is_ruled_out(p); };
    if (const Choice* other = estimate_cache_.fastest_fitting(wanted)) result_.best = *other;
    return false;
  }

  // Replaces a plan that quantizes gradients by the fastest known one that does not, if it is not much slower. Returns
  // whether it did.
  bool prefer_exact_gradients() {
    const Choice quantized = *result_.best;
    if (quantized.plan.gradient_bits == 0 || !is_open(spec_, "gradient_bits")) return false;
    Plan p = quantized.plan;
    p.gradient_bits = 0;
    if (estimate_cache_.quick_estimate(p) != nullptr) estimate_cache_.exact_estimate(p);
    while (const Choice* const exact =
               estimate_cache_.fastest_fitting([](const Plan& q) { return q.gradient_bits == 0; })) {
      if (exact->estimate.time.total > (1 + kWorthQuantizing) * quantized.estimate.time.total) return false;
      if (!estimate_cache_.exact_memory(exact->plan).fits()) continue;
      result_.best = *exact;
      quantized_ = quantized.plan;
      return true;
    }
    return false;
  }

  // Lists faster plans that do not fit.
  void list_missed() {
    const double best = result_.best->estimate.time.total;
    for (const Choice* c : estimate_cache_.ranking()) {
      if (result_.alternatives.size() >= kMissed || c->estimate.time.total >= best || !may_estimate()) return;
      const double full = memory_fraction(c->estimate.memory);
      if (is_shown(c->plan) || is_ruled_out(c->plan) || full <= 1 || full > kWithinReach) continue;
      const Choice& now = estimate_cache_.exact_estimate(c->plan);
      const Estimate& e = now.estimate;
      if (e.ranks == 0 || e.memory.fits() || e.time.total >= best || memory_fraction(e.memory) > kWithinReach) continue;
      show(now);
      result_.remarks.push_back(fmt::format("with {} more: {}, {:.1f} % faster",
                                            human_bytes(static_cast<double>(e.memory.missing())), describe(now.plan),
                                            100 * (1 - e.time.total / best)));
    }
  }

  void list_quantized() {
    const Choice& c = estimate_cache_.exact_estimate(*quantized_);
    result_.remarks.push_back(fmt::format(
        "{} is {:.1f} % faster; gradients are quantized only if that makes a step {:.0f} % faster", describe(c.plan),
        100 * (1 - c.estimate.time.total / result_.best->estimate.time.total), 100 * kWorthQuantizing));
  }

  // Lists one plan of each arrangement and schedule, and the best one with another micro-batch.
  void list_alternatives() {
    const Plan& best = result_.best->plan;
    const auto show_next = [&](const auto& wanted) {
      for (const Choice* c : estimate_cache_.ranking()) {
        if (!wanted(c->plan) || is_ruled_out(c->plan) || estimate_cache_.likely_memory_fraction(*c) > 1) continue;
        const Choice& now = may_estimate() ? estimate_cache_.exact_estimate(c->plan) : *c;
        if (now.estimate.ranks == 0 || !now.estimate.memory.fits()) continue;
        show(now);
        return true;
      }
      return false;
    };
    const auto new_kind = [&](const Plan& p) { return !alike(p, best) && !is_shown(p); };
    while (result_.alternatives.size() < static_cast<size_t>(limits_.alternatives) && show_next(new_kind)) {
    }
    std::stable_sort(result_.alternatives.begin(), result_.alternatives.end(),
                     [](const Choice& x, const Choice& y) { return x.estimate.time.total < y.estimate.time.total; });
    show_next([&](const Plan& p) { return alike(p, best) && p.micro_batch != best.micro_batch; });
  }

  // Makes an alternative the best if it turned out to be better; returns whether it did.
  bool promote() {
    for (const Choice& c : result_.alternatives) {
      const Estimate& e = c.estimate;
      if (is_ruled_out(c.plan) || !c.exact || !e.memory.fits() || e.time.total >= result_.best->estimate.time.total)
        continue;
      result_.best = Choice(c);
      result_.best->why.clear();
      return true;
    }
    return false;
  }

  // Whether a plan quantizes gradients although the search has found that this gains too little.
  bool is_ruled_out(const Plan& p) const { return quantized_ && p.gradient_bits > 0; }
  // Whether two plans have the same arrangement and schedule.
  static bool alike(const Plan& a, const Plan& b) {
    return a.tensor == b.tensor && a.sequence == b.sequence && a.pipeline == b.pipeline && a.schedule == b.schedule;
  }
  bool is_shown(const Plan& p) const {
    const auto& shown = result_.alternatives;
    return std::any_of(shown.begin(), shown.end(), [&](const Choice& c) { return alike(c.plan, p); });
  }
  void show(const Choice& c) {
    result_.alternatives.push_back(c);
    result_.alternatives.back().why = why_not(c, *result_.best, cluster_);
  }

  const RunSpec& spec_;
  const int ranks_;
  const ClusterSpec& cluster_;
  const SearchLimits limits_;
  const Candidates candidates_;
  EstimateCache estimate_cache_;
  const double start_ = thread_seconds();
  double fastest_sure_ = std::numeric_limits<double>::infinity();
  std::optional<Plan> quantized_;  // a faster plan that quantizes gradients, but not much faster
  Search result_;
};

}  // namespace

Search search(const RunSpec& spec, int ranks, const ClusterSpec& cluster, PlanEstimator& estimator,
              const SearchLimits& limits) {
  return Searcher(spec, ranks, cluster, estimator, limits).run();
}

}  // namespace fp
