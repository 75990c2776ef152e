#include "planner/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "planner/candidates.h"
#include "planner/looks.h"

namespace fp {
namespace {

// Of time and exact looks: until all glances are done, and until the best is chosen.
constexpr double kShareOfGlances = 0.6, kShareOfBest = 0.7;
constexpr double kPatience = 3;     // as much time for a plan that fits at all
constexpr size_t kMissed = 2;       // faster plans that do not fit and are shown for it
constexpr double kWithinReach = 2;  // of them, in memory

class Searcher {
 public:
  Searcher(const RunSpec& spec, int ranks, const ClusterSpec& cluster, Judge& judge, const SearchBudget& budget)
      : spec_(spec),
        ranks_(ranks),
        cluster_(cluster),
        budget_(budget),
        candidates_(spec, ranks, cluster),
        looks_(spec, ranks, judge) {}

  Search run() {
    std::vector<Plan> leads = candidates_.leads();
    if (leads.empty()) leads = candidates_.leads(true);  // to say how much is missing
    result_.leads = static_cast<int>(leads.size());
    expand(ordered(leads));
    if (looks_.ranking().empty()) refuse();
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
    result_.glances = looks_.glances();
    result_.estimates = looks_.estimates();
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
    if (!looks_.trouble().empty()) throw ConfigError(looks_.trouble());
    throw ConfigError(fmt::format(
        "nothing that parallel.auto leaves open makes a plan for {} rank{}: the degrees that are written must divide "
        "them, and train.global_batch = {} must divide by parallel.data x train.micro_batch",
        ranks_, ranks_ == 1 ? "" : "s", spec_.train.global_batch));
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
      if (!looks_.none() && spent(kShareOfGlances / 2)) {
        result_.complete = false;
        break;
      }
      const Estimate* first = looks_.glance(p);
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
      const Estimate* e = looks_.glance(p);
      if (e == nullptr || fullness(e->memory) > kPerhaps) continue;
      visit(*e);
      for (const Plan& sibling : candidates_.siblings(p)) note(looks_.glance(sibling));
      if (note(e)) sure.push_back(p);
    }
  }

  // Whether it surely fits.
  bool note(const Estimate* e) {
    if (e == nullptr || fullness(e->memory) > kSurely) return false;
    fastest_sure_ = std::min(fastest_sure_, e->time.total);
    return true;
  }

  bool may_estimate(double share = 1) const {
    return looks_.estimates() < std::ceil(share * budget_.estimates) && !spent(share);
  }

  // The next that could be the best.
  const Choice* next() const {
    for (const Choice* c : looks_.ranking()) {
      if (c->exact || looks_.likely_fullness(*c) > kPerhaps) continue;
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
      const Choice& now = looks_.exactly(c->plan);
      if (now.estimate.ranks == 0) continue;
      if (!now.estimate.memory.fits())
        for (const Plan& p : candidates_.thriftier(now.plan)) looks_.glance(p);
      else if (!result_.best || now.estimate.time.total < result_.best->estimate.time.total)
        result_.best = now;
    }
  }

  void find_closest() {
    const std::vector<const Choice*> all = looks_.ranking();
    if (all.empty()) return;
    const auto least = std::min_element(all.begin(), all.end(), [](const Choice* a, const Choice* b) {
      return a->estimate.memory.missing() < b->estimate.memory.missing();
    });
    result_.closest = looks_.exactly((*least)->plan);
  }

  void choose() {
    do estimate_best();
    while (result_.best && !holds());
  }

  // Whether the best fits on every rank; if not, it is the best no more.
  bool holds() {
    result_.best->estimate.memory = looks_.on_every_rank(result_.best->plan);
    if (result_.best->estimate.memory.fits()) return true;
    result_.best.reset();
    if (const Choice* other = looks_.fastest_fitting()) result_.best = *other;
    return false;
  }

  // Faster plans for which there is too little memory.
  void list_missed() {
    const double best = result_.best->estimate.time.total;
    for (const Choice* c : looks_.ranking()) {
      if (result_.alternatives.size() >= kMissed || c->estimate.time.total >= best || !may_estimate()) return;
      const double full = fullness(c->estimate.memory);
      if (is_shown(c->plan) || full <= 1 || full > kWithinReach) continue;
      const Choice& now = looks_.exactly(c->plan);
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
      for (const Choice* c : looks_.ranking()) {
        if (!wanted(c->plan) || looks_.likely_fullness(*c) > 1) continue;
        const Choice& now = may_estimate() ? looks_.exactly(c->plan) : *c;
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
  const SearchBudget budget_;
  const Candidates candidates_;
  Looks looks_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double fastest_sure_ = std::numeric_limits<double>::infinity();
  Search result_;
};

}  // namespace

Search search(const RunSpec& spec, int ranks, const ClusterSpec& cluster, Judge& judge, const SearchBudget& budget) {
  return Searcher(spec, ranks, cluster, judge, budget).run();
}

}  // namespace fp
