#include "pipeline/placing.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace fp {
namespace {

Action on_stage(ActionKind kind, int stage) { return {kind, 0, false, stage, -1}; }

// Returns for each action the index of the next one of its stage that needs weights; list.size(): none.
std::vector<size_t> next_uses(const std::vector<Action>& list, int stages, bool w_needs_weights) {
  std::vector<size_t> next(list.size()), coming(static_cast<size_t>(stages), list.size());
  for (size_t i = list.size(); i-- > 0;) {
    size_t& use = coming[static_cast<size_t>(list[i].stage)];
    next[i] = use;
    if (needs_weights(list[i].kind, w_needs_weights)) use = i;
  }
  return next;
}

struct Resident {
  int stage;
  size_t last, next;  // uses
};

// Belady's rule: when all places are taken, the stage whose next use is furthest away is freed. The new one is gathered
// right after that stage's last use, which is as early as possible.
void place_gathers(const std::vector<Action>& list, int stages, const LoweringOptions& options, Slots& slots) {
  const auto most = static_cast<size_t>(options.resident);
  const std::vector<size_t> next = next_uses(list, stages, options.w_needs_weights);
  std::vector<Resident> whole;
  // Nothing is inserted between the two actions of a pair.
  const auto after = [&](size_t i) -> std::vector<Action>& {
    return slots.before[i + (list[i].paired_with_next ? 2 : 1)];
  };
  for (size_t i = 0; i < list.size(); ++i) {
    if (!needs_weights(list[i].kind, options.w_needs_weights)) continue;
    FP_CHECK(!list[i].paired_with_next || most > 1, "a pair that runs as one needs two stages at a time");
    const int stage = list[i].stage;
    auto here = std::find_if(whole.begin(), whole.end(), [&](const Resident& w) { return w.stage == stage; });
    if (here == whole.end() && whole.size() < most) {
      slots.before[0].push_back(on_stage(ActionKind::gather, stage));
      here = whole.insert(here, {stage, i, next[i]});
    } else if (here == whole.end()) {
      const auto need = [&](const Resident& w) {
        return w.last + 1 == i && list[w.last].paired_with_next ? 0 : w.next;
      };
      here = std::max_element(whole.begin(), whole.end(), [&](auto& a, auto& b) { return need(a) < need(b); });
      after(here->last).push_back(on_stage(ActionKind::free, here->stage));
      after(here->last).push_back(on_stage(ActionKind::gather, stage));
    }
    *here = {stage, i, next[i]};
  }
  for (const Resident& w : whole) after(w.last).push_back(on_stage(ActionKind::free, w.stage));
}

// Returns for each stage the index after its last W or D in a rank's list; 0: it has none.
std::vector<size_t> ends_of_gradients(const std::vector<Action>& list, int stages) {
  std::vector<size_t> ends(static_cast<size_t>(stages));
  for (size_t i = 0; i < list.size(); ++i)
    if (completes_gradient(list[i].kind)) ends[static_cast<size_t>(list[i].stage)] = i + 1;
  return ends;
}

void reduce_at_once(const std::vector<Action>& list, int every, int stages, Slots& slots) {
  const std::vector<size_t> ends = ends_of_gradients(list, stages);
  std::vector<int> since(ends.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (!completes_gradient(list[i].kind)) continue;
    const auto stage = static_cast<size_t>(list[i].stage);
    if (++since[stage] != every && ends[stage] != i + 1) continue;
    since[stage] = 0;
    slots.after[i].push_back(on_stage(ActionKind::reduce, list[i].stage));
  }
}

// Index of the first action that starts at `time` or later.
size_t place_at(const std::vector<Interval>& times, double time) {
  const auto later = [&](const Interval& i) { return i.start >= time; };
  return static_cast<size_t>(std::find_if(times.begin(), times.end(), later) - times.begin());
}

// End of the rank's first wait at `time` or later; infinity: it does not wait any more.
double next_wait(const std::vector<Interval>& times, double time, double least) {
  size_t at = place_at(times, time - least);
  while (at > 0 && at < times.size() && times[at].start <= times[at - 1].end + least) ++at;
  return at < times.size() ? times[at].start : std::numeric_limits<double>::infinity();
}

// Times at which ranks r and p-1-r have both completed the gradients of each stage they share, ascending; deeper stages
// first at equal times.
std::vector<std::pair<double, int>> ends_of_pair(const Schedule& s, const Timing& timing, size_t r) {
  std::vector<std::pair<double, int>> done;
  for (int stage = s.placement.stages() - 1; stage >= 0; --stage) {
    double both = -1;
    for (const size_t rank : {r, s.ranks.size() - 1 - r})
      if (const size_t end = ends_of_gradients(s.ranks[rank], s.placement.stages())[static_cast<size_t>(stage)];
          end > 0)
        both = std::max(both, timing.actions[rank][end - 1].end);
    if (both >= 0) done.emplace_back(both, stage);
  }
  std::stable_sort(done.begin(), done.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return done;
}

// Reduces where both ranks of the pair next wait, or at the end, so that reductions do not hold up their computation.
// The same time on both: the first to arrive waits, and the other must not depend on its later actions until then.
void reduce_in_waits(const Schedule& s, const Timing& timing, size_t r, Placed& placed) {
  const size_t other = s.ranks.size() - 1 - r;
  const double least = 1e-9 * timing.makespan;
  double time = 0;
  for (const auto& [done, stage] : ends_of_pair(s, timing, r)) {
    time = std::max(time, done);
    time = std::max(next_wait(timing.actions[r], time, least), next_wait(timing.actions[other], time, least));
    for (const size_t rank : {r, other}) {
      const size_t end = ends_of_gradients(s.ranks[rank], s.placement.stages())[static_cast<size_t>(stage)];
      const size_t at = std::max(end, place_at(timing.actions[rank], time - least));
      placed[rank].before[at].push_back(on_stage(ActionKind::reduce, stage));
    }
  }
}

}  // namespace

void place_gathers(const Schedule& computed, const LoweringOptions& options, Placed& placed) {
  for (size_t r = 0; r < placed.size(); ++r)
    place_gathers(computed.ranks[r], computed.placement.stages(), options, placed[r]);
}

void place_reduces(const Schedule& computed, const Timing& timing, int every, Placed& placed) {
  const bool in_waits = every == 0 && computed.placement.two_way;
  for (size_t r = 0; r < (in_waits ? placed.size() / 2 : 0); ++r) reduce_in_waits(computed, timing, r, placed);
  for (size_t r = 0; r < (in_waits ? 0 : placed.size()); ++r)
    reduce_at_once(computed.ranks[r], every, computed.placement.stages(), placed[r]);
}

}  // namespace fp
