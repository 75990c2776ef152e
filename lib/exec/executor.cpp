#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/preference.h"
#include "exec/staged.h"

namespace fp {

Executor::Executor(Model& model, const Groups& groups, const ExecutorOptions& options)
    : model_(&model),
      groups_(groups),
      copies_(tensor_subgroup(groups, "kv_copies", model.table().copy_sharers())),
      options_(options),
      weights_(model.env(), *groups_.data),
      gradients_(model.env(), *groups_.data, *copies_) {}

LossSums& LossSums::operator+=(const LossSums& o) {
  loss += o.loss;
  z += o.z;
  units += o.units;
  target_bytes += o.target_bytes;
  margin += o.margin;
  preferred += o.preferred;
  return *this;
}

void LossSums::sum_over(Group& group) {
  double values[] = {
      loss, z, static_cast<double>(units), static_cast<double>(target_bytes), margin, static_cast<double>(preferred)};
  group.all_reduce(values);
  *this = {values[0],
           values[1],
           static_cast<int64_t>(values[2]),
           static_cast<int64_t>(values[3]),
           values[4],
           static_cast<int64_t>(values[5])};
}

namespace {

std::vector<float> to_host(Ops& ops, const Tensor& loss) {
  std::vector<float> rows(static_cast<size_t>(loss.elements()));
  ops.copy_out(rows.data(), loss);
  return rows;
}

// Rows 2i and 2i + 1 as pairs; `scales` receives the gradient of each row's cross entropy.
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

// The losses of my tokens [M,2] to the cross entropy of each whole row.
std::vector<double> Executor::sum_rows(const Batch& b, const std::vector<float>& losses) const {
  const auto tokens = static_cast<size_t>(share_of(model_->env(), b).tokens);
  std::vector<double> rows(static_cast<size_t>(b.n));
  for (size_t i = 0; i < losses.size(); i += 2) rows[i / 2 / tokens] += losses[i];
  groups_.sequence->all_reduce(rows);
  return rows;
}

LossSums Executor::sums(const Batch& b, const Tensor& loss, std::vector<double>* row_scales) const {
  const std::vector<float> host = to_host(*model_->env().ops, loss);
  const TokenShare share = share_of(model_->env(), b);
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

LossSpec Executor::loss_spec(std::span<const Batch> micro_batches) const {
  double units = 0;
  for (const Batch& b : micro_batches) {
    const TokenShare share = share_of(model_->env(), b);
    const int64_t rows = counts_rows(share) ? b.n / 2 : 0;
    units += static_cast<double>(options_.dpo ? rows : valid_targets(b, share));
  }
  groups_.data->all_reduce(std::span(&units, 1));
  return {1.0 / std::max(units, 1.0), options_.z_loss, options_.loss_chunk};
}

ArenaTensor Executor::forward(const MicroBatch& batch, std::vector<BlockState>* states) {
  const std::vector<Block>& blocks = model_->blocks();
  weights_.acquire(stem_unit(), layer_unit(0));
  ArenaTensor x = model_->stem().forward(batch);
  weights_.release(stem_unit());
  for (size_t l = 0; l < blocks.size(); ++l) {
    groups_.record->tick();
    weights_.acquire(layer_unit(l), layer_unit(l + 1));
    BlockState nothing;
    x = blocks[l].forward(std::move(x), batch, states != nullptr ? (*states)[l] : nothing);
    weights_.release(layer_unit(l));
  }
  return x;
}

void Executor::open_head(bool gradients) {
  weights_.acquire(head_unit());
  if (tied()) weights_.acquire(stem_unit());
  if (!gradients) return;
  gradients_.open(head_unit());
  if (tied()) gradients_.open(stem_unit());
}

void Executor::close_head(bool gradients) {
  weights_.release(head_unit());
  if (tied()) weights_.release(stem_unit());
  if (gradients) gradients_.close(head_unit());
}

void Executor::backward(ArenaTensor x, const MicroBatch& batch, std::vector<BlockState>& states) {
  for (size_t l = states.size(); l-- > 0;) {
    weights_.acquire(layer_unit(l), l > 0 ? layer_unit(l - 1) : -1);
    groups_.record->tick();
    gradients_.open(layer_unit(l));
    x = model_->blocks()[l].backward_input(std::move(x), batch, states[l]);
    model_->blocks()[l].backward_weight(states[l]);
    weights_.release(layer_unit(l));
    gradients_.close(layer_unit(l));
  }
  if (!tied()) gradients_.open(stem_unit());
  model_->stem().backward_weight(std::move(x), batch);
  gradients_.close(stem_unit());
}

LossSums Executor::accumulate(std::span<const Batch> micro_batches) {
  const ModelEnv& e = model_->env();
  LossSpec spec = loss_spec(micro_batches);
  gradients_.begin_step();
  LossSums total;
  std::vector<BlockState> states(model_->blocks().size());
  std::vector<double> row_scales;
  for (const Batch& b : micro_batches) {
    const Staged staged = stage(e, b, true);
    const MicroBatch& batch = staged.view;
    const ArenaTensor loss = e.alloc_f32({batch.rows(), 2});
    gradients_.begin_micro_batch(&b == &micro_batches.back());
    ArenaTensor x = forward(batch, &states);
    open_head(true);
    if (options_.dpo) {  // how hard to pull on an answer depends on both answers of its pair
      model_->head().forward(x, batch, loss, spec);
      row_scales.clear();
      total += sums(b, loss, &row_scales);
      spec.sample_scales = row_scales;
    }
    x = model_->head().forward_backward(std::move(x), batch, loss, spec);
    close_head(true);
    backward(std::move(x), batch, states);
    gradients_.end_micro_batch();
    if (!options_.dpo) total += sums(b, loss);
  }
  return total;
}

GradientNorm Executor::gradient_norm() {
  const ModelEnv& e = model_->env();
  const ParamTable& table = model_->table();
  std::vector<std::vector<Segment>> owned(table.units().size());  // of each unit's shard
  int64_t count = 0;
  for (size_t u = 0; u < owned.size(); ++u) {
    const ParamUnit& unit = table.units()[u];
    const int64_t origin = table.shard_of(unit, table.shard()).offset;
    for (ParamId id = unit.first; id <= unit.last; ++id)
      for (const Fragment& f : table.owned(id))
        owned[u].push_back({table[id].offset + f.offset - origin, f.count.elements()});
    count += static_cast<int64_t>(owned[u].size());
  }
  const ArenaTensor squares = e.alloc_f32({std::max<int64_t>(count, 1)});
  int64_t at = 0;
  for (size_t u = 0; u < owned.size(); ++u) {
    const auto n = static_cast<int64_t>(owned[u].size());
    if (n == 0) continue;
    e.ops->sum_squares(squares->slice(at, n), e.widened(e.params->shard_of_gradients(table.units()[u])), owned[u]);
    at += n;
  }
  double sum = 0;
  if (count > 0)
    for (const float s : to_host(*e.ops, squares)) sum += s;
  groups_.world->all_reduce(std::span(&sum, 1));
  return {std::sqrt(sum), std::isfinite(sum)};
}

void Executor::update(const OptimizerSection& spec, double lr, int64_t step, double norm) {
  const ModelEnv& e = model_->env();
  const ParamStore& store = *e.params;
  const bool round_later = store.compute() == DType::f32 || options_.rounding_seed;
  for (const ParamUnit& u : model_->table().units()) {
    const UnitState s = store.unit_state(u);
    std::vector<ParamRange> ranges;
    for (const ParamPart& p : store.kept(u)) {
      const Param& param = model_->table()[p.id];
      ranges.push_back({{param.offset + p.first - s.first, p.count}, param.decay});
    }
    const ArenaTensor gradient = e.widened(s.gradient);
    adamw_step(*e.ops, {s.param, s.exp_avg, s.exp_avg_sq, gradient, round_later ? Tensor{} : s.weights}, ranges, spec,
               lr, step, clip_scale(norm, spec.grad_clip));
  }
  restore_weights(step);
}

void Executor::restore_weights(int64_t step) {
  const ModelEnv& e = model_->env();
  if (options_.rounding_seed && step > 0) e.params->round_weights(*e.ops, *options_.rounding_seed, step);
  weights_.share();
}

LossSums Executor::evaluate(const Batch& b) {
  const Staged staged = stage(model_->env(), b, false);
  const ArenaTensor loss = model_->env().alloc_f32({staged.view.rows(), 2});
  token_losses(staged.view, loss);
  return sums(b, loss);
}

void Executor::token_losses(const MicroBatch& batch, const Tensor& loss) {
  const ArenaTensor x = forward(batch, nullptr);
  open_head(false);
  model_->head().forward(x, batch, loss, {1.0, 0.0, options_.loss_chunk});
  close_head(false);
}

std::vector<double> Executor::row_losses(const Batch& b) {
  const Staged staged = stage(model_->env(), b, false);
  const ArenaTensor loss = model_->env().alloc_f32({staged.view.rows(), 2});
  token_losses(staged.view, loss);
  return sum_rows(b, to_host(*model_->env().ops, loss));
}

std::vector<float> Executor::logits(const Batch& b) {
  const Staged staged = stage(model_->env(), b, false);
  std::vector<float> out(static_cast<size_t>(staged.view.rows() * model_->architecture().vocab));
  model_->head().logits(forward(staged.view, nullptr), out);
  return out;
}

}  // namespace fp
