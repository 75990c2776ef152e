#include "exec/update_sums.h"

#include <algorithm>

namespace fp {
namespace {

int64_t most_slots(const ParamTable& table) {
  size_t most = 0;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) most = std::max(most, table.slots_of(id).size());
  return static_cast<int64_t>(most);
}

}  // namespace

UpdateSums::UpdateSums(const ModelEnv& env, const std::vector<StatePiece>& pieces, bool state, bool gradients)
    : env_(&env), rows_(most_slots(env.params->table()) + 1), pieces_(&pieces), first_{0} {
  for (const StatePiece& p : pieces) first_.push_back(first_.back() + static_cast<int64_t>(p.parts.size()));
  const int64_t n = most_parts(*env.params);  // so that all ranks need equal memory
  FP_CHECK(first_.back() <= n, "{} parts, not at most {}", first_.back(), n);
  if (state) bits_ = env.arena->alloc(DType::i32, {n, rows_, 2}, MemoryClass::workspace);
  if (bits_ && env.params->table().slots_differ()) env.ops->zero({bits_});  // updates leave out those of matrices
  if (gradients) sums_ = env.arena->alloc(DType::f32, {n, 2}, MemoryClass::workspace);
}

UpdateChecksums UpdateSums::of_piece(size_t i) const {
  const auto rows = [&](const ArenaTensor& t) { return t ? t->slice(first_[i], first_[i + 1] - first_[i]) : Tensor{}; };
  return {.bits = rows(bits_), .gradient = rows(sums_)};
}

std::vector<double> UpdateSums::gradients() const {
  std::vector<double> of_units(env_->params->table().units().size());
  if (!sums_) return of_units;
  const Tensor sums = sums_->slice(0, first_.back());
  std::vector<float> host(static_cast<size_t>(sums.elements()));
  env_->ops->copy_out({host.data(), sums});
  size_t row = 0;
  for (const StatePiece& piece : *pieces_)
    for (size_t i = 0; i < piece.parts.size(); ++i, ++row)
      of_units[static_cast<size_t>(piece.unit)] += static_cast<double>(host[2 * row]);
  return of_units;
}

StateSums UpdateSums::state(bool rounded, bool matrices) const {
  StateSums state;
  if (!bits_) return state;
  const Tensor bits = bits_->slice(0, first_.back());
  std::vector<int32_t> host(static_cast<size_t>(bits.elements()));
  env_->ops->copy_out({host.data(), bits});
  const ParamStore& store = *env_->params;
  std::vector<ParamPart> parts;
  for (const StatePiece& p : *pieces_) parts.insert(parts.end(), p.parts.begin(), p.parts.end());
  size_t at = 0;
  for (const ParamUnit& unit : store.table().units())
    for (const ParamPart& whole : store.kept(unit)) {
      std::vector<int> slots = store.table().slots_of(whole.id);
      slots.push_back(store.table().slot_count());  // the rounded weights
      std::vector<StateSums::Sums> sums(slots.size());
      // The parts of the pieces are those of the units, in the same order, some of them cut.
      for (int64_t done = 0; done < whole.count; ++at) {
        const ParamPart& part = parts.at(at);
        for (size_t row = 0; row < sums.size(); ++row) {
          const int32_t* const of_part = &host[2 * (at * static_cast<size_t>(rows_) + row)];
          add_bit_sums(sums[row], {of_part[0], of_part[1]}, part.first - whole.first);
        }
        FP_CHECK(part.id == whole.id && part.first == whole.first + done, "the pieces are not those of the state");
        done += part.count;
      }
      if (!matrices && store.table()[whole.id].matrix) continue;
      for (size_t row = 0; row < sums.size() - (rounded ? 0 : 1); ++row) state.add(whole, slots[row], sums[row]);
    }
  return state;
}

}  // namespace fp
