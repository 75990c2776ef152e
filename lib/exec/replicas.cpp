#include "exec/replicas.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/filesystem.h"

namespace fp {
namespace {

// What of this rank's state others hold too, in an order that all of them share.
struct Copy {
  std::string name;
  Tensor tensor;
};

std::string hashes(const std::vector<Copy>& copies, Ops& ops) {
  std::string all;
  std::vector<std::byte> host;
  for (const Copy& c : copies) {
    host.resize(c.tensor.bytes());
    ops.copy_out(host.data(), c.tensor);
    all += hash_bytes(host.data(), host.size()) + " ";
  }
  return all;
}

constexpr const char* kind_names[] = {"weights", "first moment", "second moment"};

// Of each parameter, its kept state as `pick` chooses of it: the range of local elements, none if count is 0.
std::vector<Copy> select(const ParamStore& store, bool sharded_too,
                         const std::function<std::vector<Segment>(ParamId)>& pick) {
  const ParamTable& table = store.table();
  std::vector<Copy> copies;
  for (const StateKind kind : kStateKinds) {
    if (store.sharded(kind) && !sharded_too) continue;
    for (const ParamUnit& u : table.units())
      for (const ParamPart& part : table.parts(u, !store.sharded(kind)))
        for (const Segment& s : pick(part.id)) {
          const int64_t begin = std::max(part.first, s.offset);
          const int64_t end = std::min(part.first + part.count, s.offset + s.count);
          if (begin < end)
            copies.push_back({fmt::format("{} of {}", kind_names[static_cast<int>(kind)], table[part.id].name),
                              store.state(kind, {part.id, begin, end - begin})});
        }
  }
  return copies;
}

// The first difference between the ranks of a group; empty: none.
std::string difference(const std::vector<Copy>& copies, Ops& ops, Group& group, const std::vector<int>& world_ranks) {
  if (group.size() == 1) return {};
  const std::vector<std::string> all = group.all_gather(hashes(copies, ops));
  const size_t each = copies.empty() ? 1 : all[0].size() / copies.size();
  for (size_t i = 0; i < copies.size(); ++i) {
    std::string odd;
    for (size_t r = 1; r < all.size(); ++r)
      if (all[r].substr(i * each, each) != all[0].substr(i * each, each))
        odd += fmt::format("{}{}", odd.empty() ? "" : ", ", world_ranks[r]);
    if (!odd.empty())
      return fmt::format("{} on rank {} is not what rank {} holds", copies[i].name, odd, world_ranks[0]);
  }
  return {};
}

}  // namespace

void check_replicas(const ParamStore& store, Ops& ops, const Groups& groups) {
  const ParamTable& table = store.table();
  const auto whole = [&](ParamId id) { return std::vector<Segment>{{0, table[id].local_elements()}}; };
  const auto replicated = [&](ParamId id) { return table[id].partition.dim < 0 ? whole(id) : std::vector<Segment>{}; };
  const int rank = groups.mesh.rank_of(groups.at);
  // Both, whatever the first finds: other groups may find nothing.
  const std::string over_data = difference(select(store, false, whole), ops, *groups.data, groups.mesh.data(rank));
  const std::string over_tensor =
      difference(select(store, true, replicated), ops, *groups.tensor, groups.mesh.tensor(rank));
  const std::vector<std::string> all = groups.world->all_gather(over_data.empty() ? over_tensor : over_data);
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  if (first != all.end())
    throw DeviceError(fmt::format(
        "copies that several ranks hold have come apart (train.check_replicas): {}; suspect the hardware of a host",
        *first));
}

}  // namespace fp
