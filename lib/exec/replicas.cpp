#include "exec/replicas.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "base/filesystem.h"

namespace fp {
namespace {

// A piece of this rank's state that others may hold too; the same name, the same piece.
struct Copy {
  std::string name;  // of the parameter and what of it
  int64_t first = 0, count = 0;
  Tensor tensor;
};

// "hash first count name", a line for each.
std::string lines_of(const std::vector<Copy>& copies, Ops& ops) {
  std::string all;
  std::vector<std::byte> host;
  for (const Copy& c : copies) {
    host.resize(c.tensor.bytes());
    ops.copy_out(host.data(), c.tensor);
    all += fmt::format("{} {} {} {}\n", hash_bytes(host.data(), host.size()), c.first, c.count, c.name);
  }
  return all;
}

// Of each parameter the ranges that `pick` names, as far as this rank keeps them; of `whole` buffers only, or of shards
// too.
class Selection {
 public:
  using Pick = std::function<std::vector<Segment>(ParamId)>;
  Selection(const ParamStore& store, bool whole_only, Pick pick)
      : store_(store), whole_only_(whole_only), pick_(std::move(pick)) {}

  std::vector<Copy> copies() const {
    std::vector<Copy> list;
    constexpr const char* names[] = {"weights", "first moment", "second moment"};
    for (const StateKind kind : kStateKinds)
      add(list, names[static_cast<int>(kind)], store_.sharded(kind),
          [&](const ParamPart& part) { return store_.state(kind, part); });
    if (store_.compute() != DType::f32)
      add(list, "rounded weights", store_.weights_sharded(),
          [&](const ParamPart& p) { return store_.kept_weights(p); });
    return list;
  }

 private:
  template <class TensorOf>
  void add(std::vector<Copy>& list, const char* what, bool sharded, const TensorOf& tensor_of) const {
    if (sharded && whole_only_) return;
    const ParamTable& table = store_.table();
    for (const ParamUnit& u : table.units())
      for (const ParamPart& part : table.parts(u, !sharded))
        for (const Segment& s : pick_(part.id)) {
          const int64_t begin = std::max(part.first, s.offset);
          const int64_t end = std::min(part.first + part.count, s.offset + s.count);
          if (begin < end)
            list.push_back({fmt::format("{} of {}", what, table[part.id].name), begin - s.offset, end - begin,
                            tensor_of({part.id, begin, end - begin})});
        }
  }

  const ParamStore& store_;
  bool whole_only_;
  Pick pick_;
};

// The first piece that two ranks of a group hold differently; empty: none. Pieces that only one of them holds do not
// matter: where the cuts are uneven, so are the shards.
std::string difference(const Selection& mine, Ops& ops, Group& group, const std::vector<int>& world_ranks) {
  if (group.size() == 1) return {};
  struct Seen {
    std::string hash;
    int rank = 0;
  };
  std::map<std::string, Seen> first;
  const std::vector<std::string> all = group.all_gather(lines_of(mine.copies(), ops));
  for (size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(all[r]);
    for (std::string line; std::getline(lines, line);) {
      const size_t space = line.find(' ');
      const auto [it, is_new] = first.emplace(line.substr(space), Seen{line.substr(0, space), world_ranks[r]});
      if (!is_new && it->second.hash != line.substr(0, space))
        return fmt::format("{} on rank {} is not what rank {} holds",
                           line.substr(line.find(' ', line.find(' ', space + 1) + 1) + 1), world_ranks[r],
                           it->second.rank);
    }
  }
  return {};
}

}  // namespace

void check_replicas(Model& model, Ops& ops) {
  const ParamStore& store = model.params();
  const Groups& groups = model.groups();
  const ParamTable& table = store.table();
  const Mesh& mesh = groups.mesh;
  const int rank = mesh.rank_of(groups.at);
  const auto whole = [&](ParamId id) { return std::vector<Segment>{{0, table[id].local_elements()}}; };
  const auto copied = [&](ParamId id) {
    std::vector<Segment> copies;
    for (const Segment& s : table.copied(table.units()[static_cast<size_t>(table.unit_of(id))]))
      if (s.offset >= table[id].offset && s.offset < table[id].offset + table[id].local_elements())
        copies.push_back({s.offset - table[id].offset, s.count});
    return copies;
  };
  const auto replicated = [&](ParamId id) { return table[id].partition.dim < 0 ? whole(id) : std::vector<Segment>{}; };
  const auto divided = [&](ParamId id) {
    return table.unit_of(id) == table.divided_unit() ? whole(id) : std::vector<Segment>{};
  };
  std::vector<int> copy_ranks;
  for (const int i : table.copy_sharers())
    copy_ranks.push_back(mesh.rank_of({groups.at.pp, groups.at.dp, groups.at.sp, i}));
  // All of them, whatever the first finds: other groups may find nothing.
  std::vector<std::string> found = {
      difference(Selection(store, true, whole), ops, *groups.data, mesh.data(rank)),
      difference(Selection(store, false, replicated), ops, *groups.tensor, mesh.tensor(rank)),
      difference(Selection(store, false, copied), ops, *groups.copies, copy_ranks)};
  if (groups.ends) {
    const std::vector<int> stages = mesh.pipeline(rank);
    found.push_back(difference(Selection(store, false, divided), ops, *groups.ends, {stages.front(), stages.back()}));
  }
  std::string mine;
  for (const std::string& text : found)
    if (mine.empty()) mine = text;
  for (const std::string& text : groups.world->all_gather(mine))
    if (!text.empty())
      throw DeviceError(fmt::format(
          "copies that several ranks hold have come apart (train.check_replicas): {}; suspect the hardware of a host",
          text));
}

}  // namespace fp
