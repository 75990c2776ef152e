#include "exec/reduction_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "exec/pieces.h"

namespace fp {

ReductionCheck::ReductionCheck(const ModelEnv& env, Group& data, Group* ends) : env_(&env), data_(&data), ends_(ends) {
  if (data.size() == 1) return;
  const auto units = static_cast<int64_t>(env.params->table().units().size());
  counts_.assign(static_cast<size_t>(units), 0);
  sums_ = env.arena->alloc(DType::f32, {units, 2}, MemoryClass::workspace);
  addend_ = env.arena->alloc(DType::f32, {1, 2}, MemoryClass::workspace);
}

void ReductionCheck::begin_step() {
  if (!sums_) return;
  env_->ops->zero({sums_});
  std::ranges::fill(counts_, 0);
}

void ReductionCheck::before(int unit, const Tensor& whole) {
  if (!sums_) return;
  unit_sent_ = epsilon_of(whole.dtype) / 2;
  const Tensor total = sums_->slice(unit, 1);
  const bool first = counts_[static_cast<size_t>(unit)]++ == 0;
  const Tensor sums = first ? total : *addend_;
  env_->ops->piece_sums({sums, whole});
  if (!first) env_->ops->add({total, total, sums});
}

std::vector<float> ReductionCheck::on_host() const {
  std::vector<float> host(static_cast<size_t>(sums_->elements()));
  env_->ops->copy_out({host.data(), sums_});
  return host;
}

std::vector<uint32_t> ReductionCheck::checksums() const {
  if (!sums_) return {};
  std::vector<uint32_t> sums;
  const std::vector<float> all = on_host();
  for (size_t u = 0; u < counts_.size(); ++u)
    sums.insert(sums.end(), {std::bit_cast<uint32_t>(all[2 * u]), std::bit_cast<uint32_t>(all[2 * u + 1])});
  return sums;
}

void ReductionCheck::verify() {
  if (!sums_) return;
  const std::vector<ParamUnit>& units = env_->params->table().units();
  const ArenaTensor sums = env_->arena->alloc(DType::f32, {1, 2}, MemoryClass::workspace);
  std::vector<double> received(units.size());
  for (size_t u = 0; u < units.size(); ++u)
    for_each_piece(*env_, env_->params->update_tensors(env_->params->kept_range(units[u])).gradient,
                   [&](const Tensor& piece, int64_t) {
                     env_->ops->piece_sums({sums, piece});
                     std::array<float, 2> host{};
                     env_->ops->copy_out({host.data(), sums});
                     received[u] += host[0];
                     return true;
                   });
  verify(received);
}

void ReductionCheck::verify(std::span<const double> received) {
  if (!sums_) return;
  constexpr double kUnit = 0x1p-24, kLargest = 1e37;  // of f32; beyond it a sum may overflow
  constexpr double kRun = 256;                        // additions in f32 on the way to a checksum, at most
  const ParamStore& store = *env_->params;
  const ParamTable& table = store.table();
  const bool sharded = store.state_sharded();
  const double unit_kept = epsilon_of(store.options().gradients) / 2;
  const std::vector<float> mine = on_host();
  const size_t units = counts_.size();
  std::vector<double> total(3 * units);  // by unit: sum of the contributions, its magnitude, sum received
  for (size_t u = 0; u < units; ++u) {
    total[3 * u] = mine[2 * u];
    total[3 * u + 1] = mine[2 * u + 1];
    total[3 * u + 2] = sharded ? received[u] : 0;
  }
  data_->all_reduce(total);
  int ends = 1;
  if (ends_ != nullptr) {  // these have added up the contributions of their data ranks
    ends = ends_->size();
    ends_->all_reduce(std::span(total).subspan(3 * static_cast<size_t>(table.divided_unit()), 2));
  }
  for (size_t u = 0; u < units; ++u) {
    const double expected = total[3 * u], magnitude = total[3 * u + 1];
    const double held = sharded ? total[3 * u + 2] : received[u];
    if (!(magnitude < kLargest)) continue;
    const double ranks = data_->size() * ends;
    const double rounding =
        magnitude * ((ranks + 2 * kRun) * kUnit + ranks * unit_sent_ + ends * counts_[u] * unit_kept);
    if (std::abs(held - expected) <= rounding) continue;
    throw DeviceError(fmt::format(
        "the gradient from {} on, summed over {} data ranks, is not the sum of the contributions: its elements add up "
        "to {}, those of the contributions to {}, and rounding explains a difference of {}; the network or the memory "
        "of one of the hosts has altered it",
        table[table.units()[u].first].name, data_->size(), held, expected, rounding));
  }
}

}  // namespace fp
