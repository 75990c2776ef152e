#include "exec/update_sums.h"

namespace fp {

UpdateSums::UpdateSums(const ModelEnv& env, bool state, bool gradients)
    : env_(&env), rows_(env.params->table().slot_count() + 1) {
  const ParamStore& store = *env.params;
  for (const ParamUnit& u : store.table().units()) {
    for (const ParamPart& p : store.kept(u)) parts_.push_back(p);
    ends_.push_back(static_cast<int64_t>(parts_.size()));
  }
  const auto n = static_cast<int64_t>(parts_.size());
  if (n == 0) return;
  if (state) bits_ = env.arena->alloc(DType::i32, {n, rows_, 2}, MemoryClass::workspace);
  if (gradients) sums_ = env.arena->alloc(DType::f32, {n, 2}, MemoryClass::workspace);
}

UpdateChecksums UpdateSums::of_unit(int unit) const {
  const int64_t begin = unit == 0 ? 0 : ends_[static_cast<size_t>(unit) - 1],
                count = ends_[static_cast<size_t>(unit)] - begin;
  const auto rows = [&](const ArenaTensor& t) { return t ? t->slice(begin, count) : Tensor{}; };
  return {.bits = rows(bits_), .gradient = rows(sums_)};
}

std::vector<double> UpdateSums::gradients() const {
  std::vector<double> of_units(ends_.size());
  if (!sums_) return of_units;
  std::vector<float> host(static_cast<size_t>(sums_->elements()));
  env_->ops->copy_out({host.data(), sums_});
  for (size_t u = 0, i = 0; u < ends_.size(); ++u)
    for (; i < static_cast<size_t>(ends_[u]); ++i) of_units[u] += static_cast<double>(host[2 * i]);
  return of_units;
}

StateSums UpdateSums::state(bool rounded) const {
  StateSums state;
  if (!bits_) return state;
  std::vector<int32_t> host(static_cast<size_t>(bits_->elements()));
  env_->ops->copy_out({host.data(), bits_});
  for (size_t i = 0; i < parts_.size(); ++i)
    for (int64_t row = 0; row < (rounded ? rows_ : rows_ - 1); ++row) {
      const int32_t* const sums = &host[2 * (i * static_cast<size_t>(rows_) + static_cast<size_t>(row))];
      state.add(parts_[i], static_cast<int>(row), {sums[0], sums[1]});
    }
  return state;
}

}  // namespace fp
