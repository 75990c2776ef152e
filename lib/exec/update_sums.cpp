#include "exec/update_sums.h"

#include <algorithm>

namespace fp {
namespace {

// Returns the slots of a parameter that an update writes.
std::vector<int> updated_slots(const ParamTable& table, ParamId id) {
  std::vector<int> slots = table.slots_of(id);
  std::erase_if(slots, [&](int slot) { return slot >= table.updated_slots(); });
  return slots;
}

int64_t most_slots(const ParamTable& table) {
  size_t most = 0;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
    most = std::max(most, updated_slots(table, id).size());
  return static_cast<int64_t>(most);
}

}  // namespace

UpdateSums::UpdateSums(const ModelEnv& env, const std::vector<Subgroup>& subgroups, const StateStream& stream,
                       bool state, bool gradients)
    : env_(&env), rows_(most_slots(env.params->table()) + 1), subgroups_(&subgroups), stream_(&stream), first_{0} {
  for (const Subgroup& s : subgroups) first_.push_back(first_.back() + static_cast<int64_t>(s.parts.size()));
  const int64_t n = most_parts(*env.params);  // so that all ranks need equal memory
  FP_CHECK(first_.back() <= n, "{} parts, not at most {}", first_.back(), n);
  if (state) bits_ = allocate(DType::i32, {n, rows_, 2});
  if (state && env.params->table().slots_differ()) env.ops->zero({bits_.device});  // updates leave out matrices'
  if (gradients) sums_ = allocate(DType::f32, {n, 2});
}

UpdateSums::Rows UpdateSums::allocate(DType type, const Shape& shape) const {
  Rows rows;
  rows.device = env_->arena->alloc(type, shape, MemoryClass::workspace);
  if (stream_->uses_host()) rows.host = env_->params->host_arena().alloc(type, shape, MemoryClass::workspace);
  return rows;
}

UpdateChecksums UpdateSums::of_subgroup(size_t i) const {
  const auto rows = [&](const Rows& of) {
    const ArenaTensor& t = stream_->places()[i] == UpdatePlace::host ? of.host : of.device;
    return t ? t->slice(first_[i], first_[i + 1] - first_[i]) : Tensor{};
  };
  return {.bits = rows(bits_), .gradient = rows(sums_)};
}

template <class T>
std::vector<T> UpdateSums::read(const Rows& rows) const {
  const Tensor all = rows.device->slice(0, first_.back());
  std::vector<T> values(static_cast<size_t>(all.elements()));
  env_->ops->copy_out({values.data(), all});
  if (!rows.host || values.empty() || env_->ops->dry()) return values;
  env_->ops->synchronize();  // the host's ops have been waited for, but may not have ended
  const size_t row = values.size() / static_cast<size_t>(first_.back());
  for (size_t i = 0; i < subgroups_->size(); ++i)
    if (stream_->places()[i] == UpdatePlace::host) {
      const auto first = static_cast<size_t>(first_[i]) * row, last = static_cast<size_t>(first_[i + 1]) * row;
      std::copy_n(rows.host->ptr<T>() + first, last - first, &values[first]);
    }
  return values;
}

std::vector<double> UpdateSums::gradients() const {
  std::vector<double> of_units(env_->params->table().units().size());
  if (!sums_.device) return of_units;
  const std::vector<float> host = read<float>(sums_);
  size_t row = 0;
  for (const Subgroup& s : *subgroups_)
    for (size_t i = 0; i < s.parts.size(); ++i, ++row)
      of_units[static_cast<size_t>(s.unit)] += static_cast<double>(host[2 * row]);
  return of_units;
}

StateSums UpdateSums::state(bool rounded, bool matrices) const {
  StateSums state;
  if (!bits_.device) return state;
  const std::vector<int32_t> host = read<int32_t>(bits_);
  const ParamStore& store = *env_->params;
  std::vector<ParamPart> parts;
  for (const Subgroup& p : *subgroups_) parts.insert(parts.end(), p.parts.begin(), p.parts.end());
  size_t at = 0;
  for (const ParamUnit& unit : store.table().units())
    for (const ParamPart& whole : store.kept(unit)) {
      std::vector<int> slots = updated_slots(store.table(), whole.id);
      slots.push_back(store.table().slot_count());  // the rounded weights
      std::vector<StateSums::Sums> sums(slots.size());
      // The parts of the subgroups are those of the units, in the same order, some of them cut.
      for (int64_t done = 0; done < whole.count; ++at) {
        const ParamPart& part = parts.at(at);
        for (size_t row = 0; row < sums.size(); ++row) {
          const int32_t* const of_part = &host[2 * (at * static_cast<size_t>(rows_) + row)];
          add_bit_sums(sums[row], {of_part[0], of_part[1]}, part.first - whole.first);
        }
        FP_CHECK(part.id == whole.id && part.first == whole.first + done, "the subgroups are not those of the state");
        done += part.count;
      }
      if (!matrices && store.table()[whole.id].matrix) continue;
      for (size_t row = 0; row < sums.size() - (rounded ? 0 : 1); ++row) state.add(whole, slots[row], sums[row]);
    }
  return state;
}

}  // namespace fp
