#include "exec/losses.h"

#include <algorithm>

#include "exec/device_batch.h"
#include "exec/preference.h"

namespace fp {

LossSums& LossSums::operator+=(const LossSums& o) {
  loss += o.loss;
  z += o.z;
  units += o.units;
  target_bytes += o.target_bytes;
  margin += o.margin;
  preferred += o.preferred;
  return *this;
}

std::array<double, LossSums::kNumbers> LossSums::numbers() const {
  return {
      loss, z, static_cast<double>(units), static_cast<double>(target_bytes), margin, static_cast<double>(preferred)};
}

LossSums LossSums::from(std::span<const double, kNumbers> n) {
  return {n[0], n[1], static_cast<int64_t>(n[2]), static_cast<int64_t>(n[3]), n[4], static_cast<int64_t>(n[5])};
}

void LossSums::sum_over(const Groups& groups) {
  auto values = numbers();
  groups.pipeline->all_reduce(values);
  groups.tokens->all_reduce(values);
  *this = from(values);
}

namespace {

std::vector<float> to_host(Ops& ops, const Tensor& losses) {
  std::vector<float> rows(static_cast<size_t>(losses.elements()));
  ops.copy_out({rows.data(), losses});
  return rows;
}

// Adds rows 2i and 2i + 1 as pairs; `scales` receives the gradient with respect to each row's cross entropy.
void add_pairs(const Batch& b, const std::vector<double>& losses, const DpoSpec& spec, LossSums& s,
               std::vector<double>* scales) {
  FP_CHECK(b.n % 2 == 0 && b.reference_logp.size() == losses.size(), "{} rows with {} reference scores", b.n,
           b.reference_logp.size());
  for (size_t i = 0; i < losses.size(); i += 2) {
    const auto first = b.targets.begin() + static_cast<int64_t>(i) * b.seq_len;
    const auto tokens = b.seq_len - std::count(first, first + b.seq_len, kIgnoredTarget);
    const PairLoss p = dpo_loss(
        {-losses[i], -losses[i + 1], b.reference_logp[i], b.reference_logp[i + 1], std::max<int64_t>(tokens, 1)}, spec);
    s.loss += p.loss;
    s.margin += p.margin;
    s.preferred += p.margin > 0 ? 1 : 0;
    if (scales != nullptr) scales->insert(scales->end(), {p.d_chosen, p.d_rejected});
  }
}

}  // namespace

LossSpec Losses::spec(std::span<const Batch> micro_batches) const {
  double units = 0;
  for (const Batch& b : micro_batches) {
    const std::vector<TokenShare> share = shares_of(*env_, b);
    const int64_t rows = counts_rows(share) ? b.n / 2 : 0;
    units += static_cast<double>(options_.dpo ? rows : valid_targets(b, share));
  }
  groups_->tokens->all_reduce(std::span(&units, 1));
  return {1.0 / std::max(units, 1.0), options_.z_loss, options_.chunk_tokens};
}

std::vector<double> Losses::sum_rows(const Batch& b, const std::vector<float>& losses) const {
  const auto tokens = static_cast<size_t>(shares_of(*env_, b).front().tokens);
  std::vector<double> rows(static_cast<size_t>(b.n));
  for (size_t i = 0; i < losses.size(); i += 2) rows[i / 2 / tokens % rows.size()] += losses[i];
  groups_->sequence->all_reduce(rows);
  return rows;
}

std::vector<double> Losses::rows(const Batch& b, const Tensor& losses) const {
  return sum_rows(b, to_host(*env_->ops, losses));
}

std::vector<TargetLoss> Losses::targets(const Batch& b, const Tensor& losses) const {
  const std::vector<float> host = to_host(*env_->ops, losses);
  std::vector<TargetLoss> list;
  auto loss = host.begin();
  for (const TokenShare& s : shares_of(*env_, b))
    for (int64_t row = 0; row < b.n; ++row)
      for (int64_t t = s.first_token; t < s.first_token + s.tokens; ++t, loss += 2)
        if (t < b.seq_len && b.targets[static_cast<size_t>(row * b.seq_len + t)] != kIgnoredTarget)
          list.push_back({row, t, static_cast<double>(*loss)});
  return list;
}

LossSums Losses::sums(const Batch& b, const Tensor& losses, std::vector<double>* row_scales) const {
  const std::vector<float> host = to_host(*env_->ops, losses);
  const std::vector<TokenShare> share = shares_of(*env_, b);
  LossSums s;
  if (counts_rows(share)) s.target_bytes = b.target_bytes;
  for (size_t i = 0; i < host.size(); i += 2) {
    if (!options_.dpo) s.loss += host[i];
    s.z += static_cast<double>(host[i + 1]) * host[i + 1];
  }
  if (!options_.dpo) {
    s.units = valid_targets(b, share);
    return s;
  }
  LossSums pairs;
  add_pairs(b, sum_rows(b, host), *options_.dpo, pairs, row_scales);
  pairs.units = b.n / 2;
  if (counts_rows(share)) s += pairs;
  return s;
}

}  // namespace fp
