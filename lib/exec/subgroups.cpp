#include "exec/subgroups.h"

#include <algorithm>

namespace fp {
namespace {

constexpr int64_t kCut = 8;  // parts of a parameter begin at multiples of this

// Collects parts of a unit's parameters in subgroups of at most `limit` elements.
class Cutter {
 public:
  Cutter(const ParamTable& table, int unit, int64_t limit, std::vector<Subgroup>& subgroups)
      : table_(table), unit_(unit), limit_(limit / kCut * kCut), differ_(table.slots_differ()), subgroups_(subgroups) {
    FP_CHECK(limit_ > 0, "subgroups of {} elements", limit);
  }
  ~Cutter() { close(); }

  void add(const ParamPart& whole) {
    for (int64_t done = 0; done < whole.count;) {
      const int64_t at = table_[whole.id].offset + whole.first + done;
      if (!current_.parts.empty() && current_.slots != slots_of(whole.id)) close();
      const int64_t space = current_.parts.empty() ? limit_ : current_.range.first + limit_ - at;
      int64_t count = std::min(whole.count - done, space);
      if (count < whole.count - done) count -= (whole.first + done + count) % kCut;
      if (count <= 0) {
        close();
        continue;
      }
      if (current_.parts.empty()) {
        current_.range.first = at;
        current_.slots = slots_of(whole.id);
      }
      current_.range.count = at + count - current_.range.first;
      current_.parts.push_back({whole.id, whole.first + done, count});
      done += count;
    }
  }

 private:
  Subgroup::Slots slots_of(ParamId id) const {
    return differ_ && table_[id].matrix ? Subgroup::Slots::states : Subgroup::Slots::all;
  }
  void close() {
    if (current_.parts.empty()) return;
    current_.unit = unit_;
    subgroups_.push_back(std::move(current_));
    current_ = {};
  }

  const ParamTable& table_;
  int unit_;
  int64_t limit_;
  bool differ_;
  std::vector<Subgroup>& subgroups_;
  Subgroup current_;
};

bool has_host_slots(const ParamTable& table) {
  return std::ranges::any_of(table.slots(), [](const StateSlot& s) { return s.residence == Residence::host; });
}

}  // namespace

std::vector<Subgroup> subgroups_of(const ParamStore& store) {
  const ParamTable& table = store.table();
  const bool streams = has_host_slots(table);
  std::vector<Subgroup> subgroups;
  for (size_t u = 0; u < table.units().size(); ++u) {
    const ParamUnit& unit = table.units()[u];
    if (!streams) {
      subgroups.push_back({static_cast<int>(u), store.kept_range(unit), store.kept(unit)});
      continue;
    }
    Cutter cutter(table, static_cast<int>(u), store.options().subgroup_elements, subgroups);
    for (const ParamPart& p : store.kept(unit)) cutter.add(p);
  }
  return subgroups;
}

std::vector<UpdatePlace> places_of(const std::vector<Subgroup>& subgroups, double device_share) {
  std::vector<int64_t> elements;
  for (const Subgroup& s : subgroups) elements.push_back(s.range.count);
  return divide_subgroups(elements, device_share);
}

int64_t most_elements(const ParamStore& store) {
  int64_t most = 0;
  for (const ParamUnit& u : store.table().units()) most = std::max(most, store.kept_range(u).count);
  return has_host_slots(store.table()) ? std::min(most, store.options().subgroup_elements) : most;
}

int64_t most_parts(const ParamStore& store) {
  const ParamTable& table = store.table();
  const int64_t shortest =
      store.options().subgroup_elements / kCut * kCut - kCut + 1;  // one that ends within a parameter
  int64_t parts = 0;
  for (const ParamUnit& u : table.units()) {
    parts += u.last - u.first + 1;
    if (has_host_slots(table)) parts += store.kept_range(u).count / shortest;
  }
  return parts;
}

void append_master_subgroups(const ParamStore& store, const ParamPart& part, std::vector<Subgroup>& subgroups) {
  const ParamTable& table = store.table();
  const size_t first = subgroups.size();
  if (table.slots()[kParamSlot].residence == Residence::host)
    Cutter(table, table.unit_of(part.id), store.options().subgroup_elements, subgroups).add(part);
  else
    subgroups.push_back({table.unit_of(part.id), {table[part.id].offset + part.first, part.count}, {part}});
  for (size_t i = first; i < subgroups.size(); ++i) subgroups[i].slots = Subgroup::Slots::param;
}

}  // namespace fp
