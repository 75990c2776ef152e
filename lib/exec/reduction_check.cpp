#include "exec/reduction_check.h"

#include <bit>
#include <cmath>

namespace fp {

ReductionCheck::ReductionCheck(const ModelEnv& env, Group& data) : env_(&env), data_(&data) {
  if (data.size() == 1) return;
  const auto units = static_cast<int64_t>(env.params->table().units().size());
  sums_ = env.arena->alloc(DType::f32, {4 * units}, MemoryClass::workspace);
  addend_ = env.arena->alloc(DType::f32, {2}, MemoryClass::workspace);
}

void ReductionCheck::begin_step() {
  if (!sums_) return;
  env_->ops->zero(sums_);
  given_.assign(env_->params->table().units().size(), false);
  received_ = given_;
}

void ReductionCheck::before(int unit, const Tensor& whole) {
  if (!sums_) return;
  unit_sent_ = epsilon_of(whole.dtype) / 2;
  add(slot(unit, 0), whole, !given_[static_cast<size_t>(unit)]);
  given_[static_cast<size_t>(unit)] = true;
}

void ReductionCheck::after(int unit, const Tensor& sum, bool sharded) {
  if (!sums_) return;
  sharded_ = sharded;
  add(slot(unit, 1), sum, !received_[static_cast<size_t>(unit)]);
  received_[static_cast<size_t>(unit)] = true;
}

void ReductionCheck::add(const Tensor& to, const Tensor& x, bool first) {
  const Tensor sums = first ? to : *addend_;
  env_->ops->piece_sums(sums.reshaped({1, 2}), x);
  if (!first) env_->ops->add(to, to, sums);
}

std::vector<float> ReductionCheck::on_host() const {
  std::vector<float> host(static_cast<size_t>(sums_->elements()));
  env_->ops->copy_out(host.data(), sums_);
  return host;
}

std::vector<uint32_t> ReductionCheck::given() const {
  if (!sums_) return {};
  std::vector<uint32_t> sums;
  const std::vector<float> all = on_host();
  for (size_t u = 0; u < given_.size(); ++u)
    sums.insert(sums.end(), {std::bit_cast<uint32_t>(all[4 * u]), std::bit_cast<uint32_t>(all[4 * u + 1])});
  return sums;
}

void ReductionCheck::verify() {
  if (!sums_) return;
  constexpr double kUnit = 0x1p-24, kLargest = 1e37;  // of f32; beyond it a sum may overflow
  constexpr double kRun = 256;                        // additions in f32 on the way to a checksum, at most
  const std::vector<float> mine = on_host();
  const size_t units = given_.size();
  std::vector<double> total(3 * units);  // of each unit: given, its magnitude, received
  for (size_t u = 0; u < units; ++u) {
    total[3 * u] = mine[4 * u];
    total[3 * u + 1] = mine[4 * u + 1];
    total[3 * u + 2] = sharded_ ? mine[4 * u + 2] : 0;
  }
  data_->all_reduce(total);
  for (size_t u = 0; u < units; ++u) {
    const double given = total[3 * u], magnitude = total[3 * u + 1];
    const double received = sharded_ ? total[3 * u + 2] : mine[4 * u + 2];
    if (!(magnitude < kLargest)) continue;
    const double ranks = data_->size(), rounding = magnitude * ((ranks + 2 * kRun) * kUnit + ranks * unit_sent_);
    if (std::abs(received - given) <= rounding) continue;
    const ParamTable& table = env_->params->table();
    throw DeviceError(fmt::format(
        "the gradient from {} on, summed over {} data ranks, is not the sum of what they gave: its elements add up to "
        "{}, theirs to {}, and rounding explains {}; the network or the memory of one of their hosts has altered it",
        table[table.units()[u].first].name, data_->size(), received, given, rounding));
  }
}

}  // namespace fp
