#include "launch/placement.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "launch/message.h"

namespace fp {
namespace {

std::vector<int> cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;  // more cores than a cpu_set_t can hold
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

RankPlace place_of_this_process(const std::string& device, const std::string& device_id) {
  return {host_name(), ::getpid(), device, device_id, cores_of_this_process(), {}, core_quota()};
}

std::string to_text(const RankPlace& p) {
  PeerMessage m{"place",
                {p.host, std::to_string(p.pid), p.device, p.device_id, p.missing, std::to_string(p.core_quota)}};
  for (const int core : p.cores) m.fields.push_back(std::to_string(core));
  return encode(m);
}

RankPlace place_from_text(std::string_view text) {
  const PeerMessage m = decode(text);
  FP_CHECK(m.verb == "place" && m.fields.size() >= 6, "not the place of a rank: '{}'", text);
  RankPlace p{m.fields[0], static_cast<long>(m.number(1)), m.fields[2], m.fields[3], {},
              m.fields[4], static_cast<int>(m.number(5))};
  for (size_t i = 6; i < m.fields.size(); ++i) p.cores.push_back(static_cast<int>(m.number(i)));
  return p;
}

std::optional<NodeFailure> missing_devices(const std::vector<RankPlace>& of_ranks, bool sharing) {
  const auto has_gpu = [](const RankPlace& p) { return p.missing.empty() && !p.device_id.empty(); };
  if (std::none_of(of_ranks.begin(), of_ranks.end(), has_gpu)) return {};
  std::map<std::string, std::set<std::string>> gpus;  // of each host
  std::map<std::string, size_t> ranks;
  for (const RankPlace& p : of_ranks) {
    ++ranks[p.host];
    if (has_gpu(p)) gpus[p.host].insert(p.device_id);
  }
  const auto complete = [&](const std::string& host) { return gpus[host].size() == ranks[host]; };
  NodeFailure failure;
  std::string example;
  for (int rank = 0; rank < static_cast<int>(of_ranks.size()); ++rank) {
    const RankPlace& p = of_ranks[rank];
    const bool short_of_gpus =
        !sharing && !complete(p.host) && std::any_of(ranks.begin(), ranks.end(), [&](const auto& other) {
          return complete(other.first) && other.second >= ranks[p.host];
        });
    if (has_gpu(p) && !short_of_gpus) continue;
    failure.ranks.push_back(rank);
    if (example.empty())
      example = fmt::format("host {} has {} of the {} that its ranks need{}{}", p.host, gpus[p.host].size(),
                            ranks[p.host], p.missing.empty() ? "" : ": ", p.missing);
  }
  if (failure.ranks.empty()) return {};
  failure.text = fmt::format("ranks {} lack a GPU while others have theirs: {}", ranges_text(failure.ranks), example);
  return failure;
}

void check_gpu_sharing(const std::vector<RankPlace>& of_ranks, bool allowed) {
  for (const RankPlace& p : of_ranks) {
    if (!p.missing.empty()) throw ConfigError(p.missing);
  }
  if (allowed) return;
  std::map<std::pair<std::string, std::string>, int> owners;
  for (int rank = 0; rank < static_cast<int>(of_ranks.size()); ++rank) {
    const RankPlace& p = of_ranks[rank];
    if (p.device_id.empty()) continue;
    const auto [owner, first] = owners.emplace(std::pair(p.host, p.device_id), rank);
    if (first) continue;
    throw ConfigError(fmt::format(
        "ranks {} and {} on host {} have the same GPU: {} ({}). Start one rank per GPU, or let several share one with "
        "`parallel.allow_gpu_sharing: true`",
        owner->second, rank, p.host, p.device, p.device_id));
  }
}

namespace {

// The numbers of ranks of each host that have the same cores, and the same quota.
struct Sharing {
  std::map<std::pair<std::string, std::vector<int>>, int> cores;
  std::map<std::pair<std::string, int>, int> quota;

  explicit Sharing(const std::vector<RankPlace>& of_ranks) {
    for (const RankPlace& p : of_ranks) {
      ++cores[{p.host, p.cores}];
      ++quota[{p.host, p.core_quota}];
    }
  }
  int threads_of(const RankPlace& p) const {
    int threads = static_cast<int>(p.cores.size()) / cores.at({p.host, p.cores});
    if (p.core_quota > 0) threads = std::min(threads, p.core_quota / quota.at({p.host, p.core_quota}));
    return std::max(1, threads);
  }
};

}  // namespace

int threads_of(const std::vector<RankPlace>& of_ranks, int rank) {
  return Sharing(of_ranks).threads_of(of_ranks[rank]);
}

namespace {

// Maximum number of lines that a person reads one by one.
constexpr size_t kReadable = 64;

struct Row {
  std::vector<int> ranks;
  std::string host, device;
  std::set<int> cores;
  int threads;
};

// Returns one row per rank; with more than kReadable ranks, one for the identical ranks of a host.
std::vector<Row> rows_of(const std::vector<RankPlace>& of_ranks) {
  const Sharing sharing(of_ranks);
  std::map<std::tuple<std::string, std::string, int>, size_t> known;
  std::vector<Row> rows;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const RankPlace& p = of_ranks[rank];
    const int threads = sharing.threads_of(p);
    const auto [at, fresh] = known.try_emplace({p.host, p.device, threads}, rows.size());
    if (fresh || of_ranks.size() <= kReadable) rows.push_back({{}, p.host, p.device, {}, threads});
    Row& row = of_ranks.size() <= kReadable ? rows.back() : rows[at->second];
    row.ranks.push_back(static_cast<int>(rank));
    row.cores.insert(p.cores.begin(), p.cores.end());
  }
  return rows;
}

}  // namespace

std::string placement_table(const std::vector<RankPlace>& of_ranks) {
  const std::vector<Row> rows = rows_of(of_ranks);
  std::vector<std::array<std::string, 5>> lines;
  for (const Row& r : rows)
    lines.push_back({ranges_text(r.ranks), r.host, r.device, ranges_text({r.cores.begin(), r.cores.end()}),
                     std::to_string(r.threads)});
  size_t ranks = 4, host = 4, device = 6, cores = 5;
  for (const auto& [rank, on, with, of, threads] : lines) {
    ranks = std::max(ranks, rank.size());
    host = std::max(host, on.size());
    device = std::max(device, with.size());
    cores = std::max(cores, of.size());
  }
  std::string table = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<{}}  threads", "rank", ranks, "host", host, "device",
                                  device, "cores", cores);
  for (const auto& [rank, on, with, of, threads] : lines)
    table +=
        fmt::format("\n{:>{}}  {:<{}}  {:<{}}  {:<{}}  {:>7}", rank, ranks, on, host, with, device, of, cores, threads);
  return table;
}

std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace fp
