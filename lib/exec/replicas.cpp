#include "exec/replicas.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "exec/pieces.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "model/host_view.h"

namespace fp {
namespace {

// A piece of this rank's state that other ranks may hold too. Equal names mean the same piece.
struct Copy {
  std::string name;  // state and parameter
  int64_t first = 0, count = 0;
  Tensor tensor;
  ParamPart part;
  int slot = kParamSlot;
};

// Returns the name, range and content hash of each copy, to be compared with those of other ranks.
std::string hashes_of(const std::vector<Copy>& copies, Ops& ops) {
  nlohmann::json all = nlohmann::json::array();
  std::vector<std::byte> host;
  for (const Copy& c : copies) {
    host.resize(c.tensor.bytes());
    read_tensor(ops, c.tensor, host.data());
    all.push_back(
        {{"name", c.name}, {"first", c.first}, {"count", c.count}, {"hash", hash_bytes(host.data(), host.size())}});
  }
  return all.dump();
}

// The ranges of each parameter that `pick` returns, as far as this rank keeps them. `whole_only`: leaves out state that
// is sharded.
class Selection {
 public:
  using Pick = std::function<std::vector<IndexRange>(ParamId)>;
  Selection(const ParamStore& store, bool whole_only, Pick pick)
      : store_(store), whole_only_(whole_only), pick_(std::move(pick)) {}

  std::vector<Copy> copies() const {
    std::vector<Copy> list;
    const ParamTable& table = store_.table();
    for (int slot = 0; slot < table.updated_slots(); ++slot)
      add(list, slot == kParamSlot ? "weights" : table.slot_name(slot), slot, store_.sharded(slot),
          [&](const ParamPart& part) { return store_.state(slot, part); });
    if (store_.compute() != DType::f32)
      add(list, "rounded weights", table.slot_count(), store_.weights_sharded(),
          [&](const ParamPart& p) { return store_.kept_weights(p); });
    return list;
  }

 private:
  template <class TensorOf>
  void add(std::vector<Copy>& list, const std::string& name, int slot, bool sharded, const TensorOf& tensor_of) const {
    if (sharded && whole_only_) return;
    const ParamTable& table = store_.table();
    for (const ParamUnit& u : table.units())
      for (const ParamPart& part : table.parts(u, !sharded))
        for (const IndexRange& s : picked(part.id, slot)) {
          const int64_t begin = std::max(part.first, s.first);
          const int64_t end = std::min(part.first + part.count, s.first + s.count);
          const ParamPart held{part.id, begin, end - begin};
          if (begin < end)
            list.push_back({fmt::format("{} of {}", name, table[part.id].name), begin - s.first, end - begin,
                            tensor_of(held), held, slot});
        }
  }

  std::vector<IndexRange> picked(ParamId id, int slot) const {
    const ParamTable& table = store_.table();
    if (slot < table.slot_count() && !table.has_slot(id, slot)) return {};
    return pick_(id);
  }

  const ParamStore& store_;
  bool whole_only_;
  Pick pick_;
};

// State of which all ranks of a group should hold equal copies.
struct Comparison {
  Selection mine;
  Group* group;
  std::vector<int> world_ranks;
};

// A 128-bit hash of names and checksums of the copies, as four integers.
std::array<double, 4> fingerprint(const std::vector<Copy>& copies, const ModelEnv& env, const StateSums& known) {
  const auto n = static_cast<int64_t>(copies.size());
  std::vector<int32_t> sums(2 * copies.size());
  if (n > 0) {
    const ArenaTensor on_device = env.arena->alloc(DType::i32, {2 * n}, MemoryClass::workspace);
    bool passed = false;
    for (int64_t i = 0; i < n; ++i) {
      const Copy& c = copies[static_cast<size_t>(i)];
      if (known.find(c.part, c.slot) || c.tensor.residence == Residence::host) continue;
      env.ops->bit_sums({on_device->slice(2 * i, 2), c.tensor});
      passed = true;
    }
    if (passed) env.ops->copy_out({sums.data(), on_device});
    for (size_t i = 0; i < copies.size(); ++i)
      if (const auto found = known.find(copies[i].part, copies[i].slot))
        std::ranges::copy(*found, &sums[2 * i]);
      else if (copies[i].tensor.residence == Residence::host)
        std::ranges::copy(bit_sums_of(env, copies[i].tensor), &sums[2 * i]);
  }
  std::string all(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(int32_t));
  for (const Copy& c : copies) all += fmt::format("{} {} {}\n", c.first, c.count, c.name);
  const std::string hash = hash_bytes(all.data(), all.size());
  std::array<double, 4> words{};
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<double>(std::stoul(hash.substr(8 * i, 8), nullptr, 16));
  return words;
}

// Whether all ranks of the group have the same fingerprint: its maximum over them equals its minimum.
bool agrees(const Comparison& c, const ModelEnv& env, const StateSums& known) {
  if (c.group->size() == 1) return true;
  const std::array<double, 4> mine = fingerprint(c.mine.copies(), env, known);
  std::array<double, 8> extremes{};
  for (size_t i = 0; i < mine.size(); ++i) {
    extremes[2 * i] = mine[i];
    extremes[2 * i + 1] = -mine[i];
  }
  c.group->all_reduce(extremes, Reduction::max);
  bool equal = true;
  for (size_t i = 0; i < mine.size(); ++i) equal = equal && extremes[2 * i] == -extremes[2 * i + 1];
  return equal;
}

// Returns a description of the first piece that differs between two ranks of a group; empty: none. Pieces that only one
// rank holds do not matter: if the cuts are uneven, so are the shards.
std::string difference(const Comparison& c, Ops& ops) {
  if (c.group->size() == 1) return {};
  struct Seen {
    std::string hash;
    int rank = 0;
  };
  std::map<std::tuple<std::string, int64_t, int64_t>, Seen> first;
  const std::vector<std::string> all = c.group->all_gather(hashes_of(c.mine.copies(), ops));
  for (size_t r = 0; r < all.size(); ++r)
    for (const nlohmann::json& copy : parse_json(all[r], "the hashes of a rank", kJsonOfRanks)) {
      const auto name = copy["name"].get<std::string>(), hash = copy["hash"].get<std::string>();
      const auto [it, is_new] = first.emplace(
          std::tuple(name, copy["first"].get<int64_t>(), copy["count"].get<int64_t>()), Seen{hash, c.world_ranks[r]});
      if (!is_new && it->second.hash != hash)
        return fmt::format("{} on rank {} is not what rank {} holds", name, c.world_ranks[r], it->second.rank);
    }
  return {};
}

std::vector<Comparison> comparisons_of(Model& model) {
  const ParamStore& store = model.params();
  const Groups& groups = model.groups();
  const ParamTable& table = store.table();
  const Mesh& mesh = groups.mesh;
  const int rank = mesh.rank_of(groups.at);
  const auto whole = [&table](ParamId id) { return std::vector<IndexRange>{{0, table[id].local_elements()}}; };
  const auto copied = [&table](ParamId id) {
    std::vector<IndexRange> copies;
    for (const IndexRange& s : table.copied(table.units()[static_cast<size_t>(table.unit_of(id))]))
      if (s.first >= table[id].offset && s.first < table[id].offset + table[id].local_elements())
        copies.push_back({s.first - table[id].offset, s.count});
    return copies;
  };
  const auto replicated = [&table, whole](ParamId id) {
    return table[id].partition.dim < 0 ? whole(id) : std::vector<IndexRange>{};
  };
  const auto divided = [&table, whole](ParamId id) {
    return table.unit_of(id) == table.divided_unit() ? whole(id) : std::vector<IndexRange>{};
  };
  std::vector<int> copy_ranks;
  for (const int i : table.copy_sharers())
    copy_ranks.push_back(mesh.rank_of({groups.at.pp, groups.at.dp, groups.at.sp, i}));
  std::vector<Comparison> all;
  all.push_back({Selection(store, true, whole), groups.data.get(), mesh.data(rank)});
  all.push_back({Selection(store, false, replicated), groups.tensor.get(), mesh.tensor(rank)});
  all.push_back({Selection(store, false, copied), groups.copies.get(), copy_ranks});
  if (groups.ends) {
    const std::vector<int> stages = mesh.pipeline(rank);
    all.push_back({Selection(store, false, divided), groups.ends.get(), {stages.front(), stages.back()}});
  }
  return all;
}

}  // namespace

void StateSums::add(const ParamPart& p, int slot, const Sums& sums) { sums_[{p.id, p.first, p.count, slot}] = sums; }

std::optional<StateSums::Sums> StateSums::find(const ParamPart& p, int slot) const {
  const auto it = sums_.find({p.id, p.first, p.count, slot});
  return it == sums_.end() ? std::nullopt : std::optional(it->second);
}

StateSums::Sums bit_sums_of(const ModelEnv& env, const Tensor& x) {
  const ArenaTensor row = env.arena->alloc(DType::i32, {2}, MemoryClass::workspace);
  StateSums::Sums total{};
  for_each_piece(env, x, [&](const Tensor& piece, int64_t at) {
    env.ops->bit_sums({row, piece});
    StateSums::Sums sums{};
    env.ops->copy_out({sums.data(), row});
    add_bit_sums(total, sums, at);
    return true;
  });
  return total;
}

void check_replicas(Model& model, Ops& ops, const StateSums& known) {
  Group& world = *model.groups().world;
  if (world.size() == 1) return;
  const std::vector<Comparison> comparisons = comparisons_of(model);
  // All comparisons run even after a difference, as they are collective and other groups may find none.
  bool differs = false;
  for (const Comparison& c : comparisons)
    if (!agrees(c, model.env(), known)) differs = true;
  if (world.lowest_with(differs) < 0) return;
  // With uneven cuts, ranks hold different pieces of a parameter; only pieces that two ranks hold are compared.
  std::string mine;
  for (const Comparison& c : comparisons)
    if (const std::string text = difference(c, ops); mine.empty()) mine = text;
  const int finder = world.lowest_with(!mine.empty());
  if (finder < 0) return;
  DeviceError error(fmt::format(
      "ranks hold different values of the same state: {}; the memory, the processor or the network of one of their "
      "hosts has altered it",
      world.broadcast(mine, finder)));
  error.blame_another_rank();  // it is unknown which rank's value is right
  throw error;
}

}  // namespace fp
