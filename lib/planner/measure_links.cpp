#include <algorithm>
#include <chrono>
#include <functional>

#include "base/error.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "planner/measure.h"
#include "tensor/arena.h"

namespace fp {
namespace {

using Clock = std::chrono::steady_clock;

// Groups ranks by host, in order of the first rank of each.
std::vector<std::vector<int>> nodes_of(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> nodes;
  for (size_t r = 0; r < hosts.size(); ++r) {
    const auto at = static_cast<size_t>(std::ranges::find(names, hosts[r]) - names.begin());
    if (at == names.size()) names.push_back(hosts[r]), nodes.emplace_back();
    nodes[at].push_back(static_cast<int>(r));
  }
  for (const auto& n : nodes)
    if (n.size() != nodes.front().size())
      throw ConfigError(
          fmt::format("hosts have different numbers of ranks, {} and {}; start the same number on each host",
                      nodes.front().size(), n.size()));
  return nodes;
}

// Times the communication of a group while all other groups of the world do the same.
class Links {
 public:
  Links(World& world, Ops& ops, std::string between, const std::vector<int>& members, bool quick, double limit_s)
      : world_(world),
        ops_(ops),
        between_(std::move(between)),
        members_(members),
        quick_(quick),
        limit_s_(limit_s),
        everybody_(world.group("bench", all_ranks(world))),
        group_(world.group("bench " + between_, members)),
        arena_(ops.allocate(3 * (kLargest + Arena::kAlignment)), 3 * (kLargest + Arena::kAlignment)) {}

  std::vector<LinkSample> measure() {
    for (const int64_t bytes : sizes()) collectives(bytes);
    for (const int64_t bytes : sizes()) messages(bytes);
    for (const int64_t count : {1, 64, 4096}) {
      std::vector<double> values(static_cast<size_t>(count), 1.0);
      add(CommKind::host, count * 8, *group_, [&] { group_->all_reduce(values, Reduction::max); });
    }
    return std::move(samples_);
  }

 private:
  static constexpr int64_t kLargest = int64_t{1} << 24;  // bytes

  static std::vector<int> all_ranks(const World& world) {
    std::vector<int> ranks(static_cast<size_t>(world.size()));
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
    return ranks;
  }

  std::vector<int64_t> sizes() const {
    if (quick_) return {int64_t{1} << 14, int64_t{1} << 20};
    return {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 19, int64_t{1} << 21, kLargest};
  }

  void collectives(int64_t bytes) {
    const int64_t n = bytes / 4 / group_->size() * group_->size();
    const ArenaTensor whole = zeros(n), other = zeros(n), part = zeros(n / group_->size());
    add(CommKind::all_reduce, bytes, *group_, [&] { group_->all_reduce(whole); });
    add(CommKind::all_gather, bytes, *group_, [&] { group_->all_gather(whole, part); });
    add(CommKind::reduce_scatter, bytes, *group_, [&] { group_->reduce_scatter(part, whole); });
    add(CommKind::all_to_all, bytes, *group_, [&] { group_->all_to_all(other, whole); });
    add(CommKind::broadcast, bytes, *group_, [&] { group_->broadcast(whole, 0); });
  }

  // Neighbours in the group exchange messages; the last of an odd number of ranks only takes part in the timing.
  void messages(int64_t bytes) {
    const auto me = static_cast<size_t>(group_->rank()), first = me / 2 * 2;
    const ArenaTensor to = zeros(bytes / 4), from = zeros(bytes / 4);
    if (first + 1 < members_.size() && pair_ == nullptr)
      pair_ = world_.pair("bench pair " + between_, {members_[first], members_[first + 1]});
    add(CommKind::send, bytes, *group_, [&] {
      if (pair_ == nullptr) return;
      Request in = pair_->start_recv(to, 1 - pair_->rank()), out = pair_->start_send(from, 1 - pair_->rank());
      out.wait();
      in.wait();
    });
    samples_.back().ranks = 2;
  }

  ArenaTensor zeros(int64_t elements) {
    ArenaTensor t = arena_.alloc(DType::f32, {elements});
    ops_.zero({t});
    return t;
  }

  double slowest(double seconds) {
    everybody_->all_reduce(std::span(&seconds, 1), Reduction::max);
    return seconds;
  }

  // Mean seconds per call on the slowest rank.
  double seconds_of(const std::function<void()>& call, int calls) {
    everybody_->barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    ops_.synchronize();
    return slowest(seconds_since(start)) / calls;
  }

  void add(CommKind kind, int64_t bytes, const Group& group, const std::function<void()>& call) {
    constexpr double kBatchSeconds = 10e-3;
    ops_.synchronize();
    world_.record().reset_traffic();
    call();
    double sent = 0;
    for (const auto& [key, traffic] : world_.record().traffic())
      if (key.second == kind) sent += static_cast<double>(traffic.bytes);
    sent = slowest(sent);  // the maximum: in a broadcast only the root sends
    const double first = seconds_of(call, 1);
    const int calls = static_cast<int>(std::clamp(kBatchSeconds / first, 1.0, 200.0));
    const bool late = quick_ && slowest(std::chrono::duration<double>(Clock::now() - start_).count()) >= limit_s_;
    std::vector<double> batches(late ? 1 : quick_ ? 3 : 7);
    for (double& b : batches) b = seconds_of(call, calls);
    std::ranges::sort(batches);
    samples_.push_back(
        {between_, name_of(kind), bytes, static_cast<int64_t>(sent), group.size(), batches[batches.size() / 2]});
  }

  World& world_;
  Ops& ops_;
  std::string between_;
  std::vector<int> members_;
  bool quick_;
  double limit_s_;
  Clock::time_point start_ = Clock::now();
  std::shared_ptr<Group> everybody_, group_, pair_;
  Arena arena_;
  std::vector<LinkSample> samples_;
};

}  // namespace

std::vector<LinkSample> measure_links(World& world, Ops& ops, const std::vector<std::string>& hosts, bool quick,
                                      double limit_s) {
  const std::vector<std::vector<int>> nodes = nodes_of(hosts);
  std::vector<LinkSample> samples;
  const auto measure = [&](const std::string& between, const std::vector<int>& members) {
    if (members.size() < 2) return;
    log::info("measuring communication between {}", between);
    const auto more = Links(world, ops, between, members, quick, limit_s).measure();
    samples.insert(samples.end(), more.begin(), more.end());
  };
  for (const auto& node : nodes) {
    const auto me = std::ranges::find(node, world.rank());
    if (me == node.end()) continue;
    std::vector<int> alike;  // the rank of each node with this rank's position
    for (const auto& other : nodes) alike.push_back(other[static_cast<size_t>(me - node.begin())]);
    measure("ranks", node);
    measure("nodes", alike);
    break;
  }
  return samples;
}

}  // namespace fp
