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

// Ranks grouped by a text, the largest group first.
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

std::string verdict(std::span<const RankState> ranks, const std::vector<int>& odd) {
  const bool all_wait = std::all_of(ranks.begin(), ranks.end(), [](const RankState& r) { return r.activity.waiting; });
  if (odd.empty())
    return all_wait ? "All ranks wait alike: look at the network or the communication library." : "No rank stands out.";
  const RankState& first =
      *std::find_if(ranks.begin(), ranks.end(), [&](const RankState& r) { return r.rank == odd[0]; });
  const std::string who = odd.size() == 1 ? describe_process(first) : ranks_text(odd);
  const char* why = first.silent              ? "sends no heartbeat: stopped, or its host is gone"
                    : !first.activity.waiting ? "is not in the communication that others wait in"
                                              : "waits in another communication than the others";
  return fmt::format("Odd one out: {}: {}.", who, why);
}

}  // namespace

bool is_stalled(std::span<const RankState> ranks, const PhaseTimeouts& timeouts) {
  const auto overdue = [&](const RankState& r) {
    const auto limit = timeouts.find(r.activity.phase);
    return r.silent || (limit != timeouts.end() && limit->second > 0 && r.still_s > limit->second);
  };
  if (std::all_of(ranks.begin(), ranks.end(), overdue)) return !ranks.empty();
  const auto one = [&](bool waits) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankState& r) { return (r.activity.waiting && !r.silent) == waits && overdue(r); });
  };
  return one(true) && one(false);
}

std::vector<int> odd_ones_out(std::span<const RankState> ranks) {
  if (ranks.size() < 2) return {};
  if (auto silent = ranks_where(ranks, [](const RankState& r) { return r.silent; }); !silent.empty()) return silent;
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
                                         : "ranks wait for one that makes none";
  std::string text = fmt::format("the run stands still: {}. {}", since, verdict(ranks, odd_ones_out(ranks)));
  const auto state = [](const RankState& r) { return describe(r.activity) + (r.silent ? ", silent" : ""); };
  for (const auto& [what, who] : group_by(ranks, state)) text += fmt::format("\n  {}: {}", ranks_text(who), what);
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks);
}

std::string describe(const CommRecord::Activity& a) {
  std::string text = fmt::format("step {}, phase {}", a.step, a.phase);
  if (a.waiting) return text + ", waiting in " + describe_entry(a.entry);
  return a.entry.group.empty() ? text : text + ", working since " + describe_entry(a.entry);
}

std::string describe_process(const RankState& r) {
  return fmt::format("rank {} (host {}, pid {})", r.rank, r.host, r.pid);
}

}  // namespace fp
