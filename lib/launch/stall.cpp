#include "launch/stall.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "launch/placement.h"

namespace fp {
namespace {

std::vector<int> ranks_where(std::span<const RankState> ranks, const std::function<bool(const RankState&)>& condition) {
  std::vector<int> chosen;
  for (const RankState& r : ranks) {
    if (condition(r)) chosen.push_back(r.rank);
  }
  return chosen;
}

// Groups ranks by a text, the largest group first.
using Grouped = std::vector<std::pair<std::string, std::vector<int>>>;
Grouped group_by(std::span<const RankState> ranks, const std::function<std::string(const RankState&)>& key) {
  std::map<std::string, std::vector<int>> by_key;
  for (const RankState& r : ranks) by_key[key(r)].push_back(r.rank);
  Grouped groups(by_key.begin(), by_key.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return groups;
}

std::string describe_entry(const CommRecord::Entry& e) {
  return fmt::format("{} of {} #{}", name_of(e.kind), e.group, e.sequence);
}

bool is_pending(const CommRecord::Lane& lane) { return lane.finished < lane.issued; }

bool waits(const RankState& r) {
  return r.activity.waiting || std::any_of(r.activity.lanes.begin(), r.activity.lanes.end(), is_pending);
}

// Returns, for each communicator, the lowest call in which a device waits.
std::map<std::string, int64_t> awaited_calls(std::span<const RankState> ranks) {
  std::map<std::string, int64_t> calls;
  for (const RankState& r : ranks)
    for (const CommRecord::Lane& lane : r.activity.lanes) {
      if (!is_pending(lane)) continue;
      const auto [at, first] = calls.emplace(lane.name, lane.finished + 1);
      at->second = std::min(at->second, lane.finished + 1);
    }
  return calls;
}

// Returns the ranks that have not issued a call in which others wait. A rank that waits itself is not the first cause,
// unless all of them do.
std::vector<int> late_on_devices(std::span<const RankState> ranks) {
  const std::map<std::string, int64_t> awaited = awaited_calls(ranks);
  const auto late = [&](const RankState& r) {
    return std::any_of(r.activity.lanes.begin(), r.activity.lanes.end(), [&](const CommRecord::Lane& lane) {
      const auto call = awaited.find(lane.name);
      return call != awaited.end() && lane.issued < call->second;
    });
  };
  auto first_causes = ranks_where(ranks, [&](const RankState& r) { return late(r) && !waits(r); });
  return first_causes.empty() ? ranks_where(ranks, late) : first_causes;
}

std::string verdict(std::span<const RankState> ranks, const std::vector<int>& odd) {
  const bool all_wait = std::all_of(ranks.begin(), ranks.end(), waits);
  if (odd.empty())
    return all_wait ? "All ranks wait alike: look at the network or the communication library." : "No rank is suspect.";
  const RankState& first =
      *std::find_if(ranks.begin(), ranks.end(), [&](const RankState& r) { return r.rank == odd[0]; });
  const std::string who = odd.size() == 1 ? describe_process(first) : ranks_text(odd);
  const auto late = late_on_devices(ranks);
  const char* why = first.silent              ? "sends no heartbeat: stopped, or its host is gone"
                    : late == odd             ? "has not issued the call that others wait in on their devices"
                    : !first.activity.waiting ? "is not in the communication that others wait in"
                                              : "waits in another communication than the others";
  return fmt::format("Suspect: {}: {}.", who, why);
}

}  // namespace

bool is_stalled(std::span<const RankState> ranks, const PhaseTimeouts& timeouts) {
  const auto still_for_too_long = [&](const RankState& r) {
    const auto limit = timeouts.find(r.activity.phase);
    return limit != timeouts.end() && limit->second > 0 && r.still_s > limit->second;
  };
  if (std::none_of(ranks.begin(), ranks.end(), still_for_too_long)) return false;
  const auto overdue = [&](const RankState& r) { return r.silent || still_for_too_long(r); };
  if (std::all_of(ranks.begin(), ranks.end(), overdue)) return true;
  const auto one = [&](bool waiting) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankState& r) { return (waits(r) && !r.silent) == waiting && overdue(r); });
  };
  return one(true) && one(false);
}

std::vector<int> odd_ones_out(std::span<const RankState> ranks) {
  if (ranks.size() < 2) return {};
  if (auto silent = ranks_where(ranks, [](const RankState& r) { return r.silent; }); !silent.empty()) return silent;
  if (auto late = late_on_devices(ranks); !late.empty() && late.size() < ranks.size()) return late;
  auto busy = ranks_where(ranks, [](const RankState& r) { return !r.activity.waiting; });
  if (busy.size() == ranks.size()) return {};
  if (!busy.empty()) return busy;
  const Grouped groups = group_by(ranks, [](const RankState& r) { return describe_entry(r.activity.entry); });
  if (groups.size() == 1) return {};
  if (groups[0].second.size() * 2 > ranks.size()) {
    return ranks_where(ranks, [&](const RankState& r) { return describe_entry(r.activity.entry) != groups[0].first; });
  }
  int64_t earliest = std::numeric_limits<int64_t>::max();
  for (const RankState& r : ranks) earliest = std::min(earliest, r.activity.step);
  auto behind = ranks_where(ranks, [&](const RankState& r) { return r.activity.step == earliest; });
  return behind.size() < ranks.size() ? behind : std::vector<int>{};
}

std::string describe_stall(std::span<const RankState> ranks) {
  double still = std::numeric_limits<double>::max();
  for (const RankState& r : ranks) still = std::min(still, r.still_s);
  const std::string since = still > 0.05 ? fmt::format("no rank has made progress for {:.1f} s", still)
                                         : "ranks wait for a rank that makes no progress";
  std::string text = fmt::format("the run is stalled: {}. {}", since, verdict(ranks, odd_ones_out(ranks)));
  const auto state = [](const RankState& r) { return describe(r.activity) + (r.silent ? ", silent" : ""); };
  for (const auto& [what, who] : group_by(ranks, state)) text += fmt::format("\n  {}: {}", ranks_text(who), what);
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

std::string describe(const CommRecord::Activity& a) {
  std::string text = fmt::format("step {}, phase {}", a.step, a.phase);
  if (a.waiting)
    text += ", waiting in " + describe_entry(a.entry);
  else if (!a.entry.group.empty())
    text += ", working since " + describe_entry(a.entry);
  for (const CommRecord::Lane& lane : a.lanes) {
    if (is_pending(lane))
      text += fmt::format(", its device in call {} of {} issued to {}", lane.finished + 1, lane.issued, lane.name);
  }
  return text;
}

std::string describe_process(const RankState& r) {
  return fmt::format("rank {} (host {}, pid {})", r.rank, r.host, r.pid);
}

}  // namespace fp
