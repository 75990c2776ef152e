#include "planner/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "planner/candidates.h"

namespace fp {
namespace {

// Of time and exact looks: until all glances are done, and until the best is chosen.
constexpr double kShareOfGlances = 0.6, kShareOfBest = 0.7;
constexpr double kPatience = 3;  // as much time for a plan that fits at all
constexpr double kUntaught = 1e9;
constexpr size_t kMissed = 2;       // faster plans that do not fit and are shown for it
constexpr double kWithinReach = 2;  // of them, in memory
constexpr double kSurely = 1 - kGlanceError, kPerhaps = 1 + kGlanceError;

class Searcher {
 public:
  Searcher(const RunSpec& spec, int ranks, const ClusterSpec& cluster, Judge& judge, const SearchBudget& budget)
      : spec_(spec),
        ranks_(ranks),
        cluster_(cluster),
        judge_(judge),
        budget_(budget),
        candidates_(spec, ranks, cluster) {}

  Search run() {
    std::vector<Plan> leads = candidates_.leads();
    if (leads.empty()) leads = candidates_.leads(true);  // to say how much is missing
    result_.leads = static_cast<int>(leads.size());
    expand(ordered(leads));
    if (ranking().empty()) refuse();
    choose();
    if (!result_.best) find_closest();
    while (result_.best) {
      result_.alternatives.clear();
      result_.remarks.clear();
      list_missed();
      list_alternatives();
      if (!promote()) break;
      if (!holds()) choose();
    }
    return std::move(result_);
  }

 private:
  struct Lead {
    double least;  // seconds of its fastest way that fits, without any bubble
    Plan plan;
  };

  bool spent(double share) const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() > share * budget_.seconds;
  }

  [[noreturn]] void refuse() const {
    if (!trouble_.empty()) throw ConfigError(trouble_);
    throw ConfigError(fmt::format(
        "nothing that parallel.auto leaves open makes a plan for {} rank{}: the degrees that are written must divide "
        "them, and train.global_batch = {} must divide by parallel.data x train.micro_batch",
        ranks_, ranks_ == 1 ? "" : "s", spec_.train.global_batch));
  }

  // nullptr: it cannot be had.
  const Estimate* glance(const Plan& plan) {
    const auto [it, fresh] = looked_at_.try_emplace(plan);
    if (!fresh) return it->second.estimate.ranks > 0 ? &it->second.estimate : nullptr;
    ++result_.glances;
    try {
      it->second = {plan, judge_.glance(with_plan(spec_, plan), ranks_), false, {}};
      return &it->second.estimate;
    } catch (const ConfigError& e) {
      if (trouble_.empty()) trouble_ = e.what();
      it->second.estimate.ranks = 0;
      return nullptr;
    }
  }

  // A first guess of what makes a plan slow, should there be no time for all: groups that leave their node, pipelines
  // that are short of micro-batches.
  double burden(const Plan& p) const {
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    const double bubble = real(p.pipeline - 1) * real(p.data * p.micro_batch) / real(spec_.train.global_batch);
    const bool leaves = p.tensor * p.sequence > cluster_.ranks_per_node;
    return (1 + bubble) * (1 + 0.05 * std::log2(real(p.tensor * p.sequence))) * (leaves ? 2 : 1);
  }

  // Even if glances are off as far as they may be.
  bool slower_than_best(double seconds) const {
    return seconds * (1 - kGlanceError) > fastest_sure_ * (1 + kGlanceError);
  }

  // Those that may become the best first.
  std::vector<Lead> ordered(std::vector<Plan> plans) {
    std::stable_sort(plans.begin(), plans.end(), [&](const Plan& a, const Plan& b) { return burden(a) < burden(b); });
    std::vector<Lead> leads;
    for (const Plan& p : plans) {
      if (!looked_at_.empty() && spent(kShareOfGlances / 2)) {
        result_.complete = false;
        break;
      }
      const Estimate* first = glance(p);
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
      if (spent(kShareOfGlances)) {
        result_.complete = false;
        return;
      }
      for (const Plan& schedule : candidates_.schedules(lead.plan)) expand_memory(schedule, [](const Estimate&) {});
    }
  }

  // The ways to save memory until one surely fits: thriftier ones are no faster. Visits those that may fit.
  template <class Visit>
  void expand_memory(const Plan& plan, const Visit& visit) {
    std::vector<Plan> sure;
    for (const Plan& p : candidates_.thriftier(plan)) {
      if (std::any_of(sure.begin(), sure.end(), [&](const Plan& s) { return is_thriftier(p, s); })) continue;
      const Estimate* e = glance(p);
      if (e == nullptr || fullness(e->memory) > kPerhaps) continue;
      visit(*e);
      for (const Plan& sibling : candidates_.siblings(p)) note(glance(sibling));
      if (note(e)) sure.push_back(p);
    }
  }

  // Whether it surely fits.
  bool note(const Estimate* e) {
    if (e == nullptr || fullness(e->memory) > kSurely) return false;
    fastest_sure_ = std::min(fastest_sure_, e->time.total);
    return true;
  }

  // All that could be had, fastest first.
  std::vector<const Choice*> ranking() const {
    std::vector<const Choice*> list;
    for (const auto& [plan, c] : looked_at_)
      if (c.estimate.ranks > 0) list.push_back(&c);
    std::stable_sort(list.begin(), list.end(),
                     [](const Choice* a, const Choice* b) { return a->estimate.time.total < b->estimate.time.total; });
    return list;
  }

  const Choice& exactly(const Plan& plan) {
    Choice& c = looked_at_.at(plan);
    if (c.exact) return c;
    ++result_.estimates;
    const double glanced = fullness(c.estimate.memory);
    try {
      c.estimate = judge_.estimate(with_plan(spec_, plan), ranks_);
      c.exact = true;
      const auto [it, first] = taught_.try_emplace({plan.schedule, plan.zero_stage}, kUntaught);
      it->second = std::min(it->second, fullness(c.estimate.memory) / glanced);
    } catch (const ConfigError&) {
      c.estimate.ranks = 0;
    }
    return c;
  }

  // Fullness, as far as exact looks at plans of this kind have shown by how much glances are too low at least.
  double likely_fullness(const Choice& c) const {
    const auto it = taught_.find({c.plan.schedule, c.plan.zero_stage});
    const double low = c.exact || it == taught_.end() ? 1 : it->second / kPerhaps;
    return fullness(c.estimate.memory) * std::max(low, 1.0);
  }

  bool may_estimate(double share = 1) const {
    return result_.estimates < std::ceil(share * budget_.estimates) && !spent(share);
  }

  // The next that could be the best.
  const Choice* next() const {
    for (const Choice* c : ranking()) {
      if (c->exact || likely_fullness(*c) > kPerhaps) continue;
      const bool hopeless =
          result_.best && c->estimate.time.total * (1 - kGlanceError) >= result_.best->estimate.time.total;
      return hopeless ? nullptr : c;
    }
    return nullptr;
  }

  void estimate_best() {
    while (const Choice* c = next()) {
      const bool enough = !may_estimate(kShareOfBest);
      if (enough) result_.complete = false;
      if (enough && (result_.best || spent(kPatience))) return;
      const Choice& now = exactly(c->plan);
      if (now.estimate.ranks == 0) continue;
      if (!now.estimate.memory.fits())
        for (const Plan& p : candidates_.thriftier(now.plan)) glance(p);
      else if (!result_.best || now.estimate.time.total < result_.best->estimate.time.total)
        result_.best = now;
    }
  }

  void find_closest() {
    const std::vector<const Choice*> all = ranking();
    if (all.empty()) return;
    const auto least = std::min_element(all.begin(), all.end(), [](const Choice* a, const Choice* b) {
      return a->estimate.memory.missing() < b->estimate.memory.missing();
    });
    result_.closest = exactly((*least)->plan);
  }

  void choose() {
    do estimate_best();
    while (result_.best && !holds());
  }

  // Whether the best fits on every rank; if not, it is the best no more.
  bool holds() {
    Choice& c = looked_at_.at(result_.best->plan);
    c.estimate.memory = judge_.memory(c.estimate.spec, ranks_);
    result_.best->estimate.memory = c.estimate.memory;
    if (c.estimate.memory.fits()) return true;
    result_.best.reset();
    for (const auto& [plan, other] : looked_at_)
      if (other.exact && other.estimate.ranks > 0 && other.estimate.memory.fits() &&
          (!result_.best || other.estimate.time.total < result_.best->estimate.time.total))
        result_.best = other;
    return false;
  }

  // Faster plans for which there is too little memory.
  void list_missed() {
    const double best = result_.best->estimate.time.total;
    for (const Choice* c : ranking()) {
      if (result_.alternatives.size() >= kMissed || c->estimate.time.total >= best || !may_estimate()) return;
      const double full = fullness(c->estimate.memory);
      if (is_shown(c->plan) || full <= 1 || full > kWithinReach) continue;
      const Choice& now = exactly(c->plan);
      const Estimate& e = now.estimate;
      if (e.ranks == 0 || e.memory.fits() || e.time.total >= best || fullness(e.memory) > kWithinReach) continue;
      show(now);
      result_.remarks.push_back(fmt::format("with {:.1f} GiB more: {}, {:.1f} % faster",
                                            static_cast<double>(e.memory.missing()) / (1 << 30), describe(now.plan),
                                            100 * (1 - e.time.total / best)));
    }
  }

  // One of each arrangement and schedule, and the best one's next micro-batch.
  void list_alternatives() {
    const Plan& best = result_.best->plan;
    const auto show_next = [&](const auto& wanted) {
      for (const Choice* c : ranking()) {
        if (!wanted(c->plan) || likely_fullness(*c) > 1) continue;
        const Choice& now = may_estimate() ? exactly(c->plan) : *c;
        if (now.estimate.ranks == 0 || !now.estimate.memory.fits()) continue;
        show(now);
        return true;
      }
      return false;
    };
    const auto new_kind = [&](const Plan& p) { return !alike(p, best) && !is_shown(p); };
    while (result_.alternatives.size() < static_cast<size_t>(budget_.alternatives) && show_next(new_kind)) {
    }
    std::stable_sort(result_.alternatives.begin(), result_.alternatives.end(),
                     [](const Choice& x, const Choice& y) { return x.estimate.time.total < y.estimate.time.total; });
    show_next([&](const Plan& p) { return alike(p, best) && p.micro_batch != best.micro_batch; });
  }

  // Whether an alternative turned out to be better.
  bool promote() {
    for (const Choice& c : result_.alternatives) {
      const Estimate& e = c.estimate;
      if (!c.exact || !e.memory.fits() || e.time.total >= result_.best->estimate.time.total) continue;
      result_.best = Choice(c);
      result_.best->why.clear();
      return true;
    }
    return false;
  }

  // In what a person cares about.
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
  Judge& judge_;
  const SearchBudget budget_;
  const Candidates candidates_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<Plan, Choice> looked_at_;                          // ranks = 0: cannot be had
  std::string trouble_;                                       // why a plan could not be had
  std::map<std::pair<std::string, int64_t>, double> taught_;  // by schedule and ZeRO stage: least of exact / glanced
  double fastest_sure_ = std::numeric_limits<double>::infinity();
  Search result_;
};

}  // namespace

Search search(const RunSpec& spec, int ranks, const ClusterSpec& cluster, Judge& judge, const SearchBudget& budget) {
  return Searcher(spec, ranks, cluster, judge, budget).run();
}

}  // namespace fp
