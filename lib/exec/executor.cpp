#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exec/preference.h"
#include "exec/staged.h"

namespace fp {

Executor::Executor(Model& model, const Groups& groups, const ExecutorOptions& options)
    : model_(&model), groups_(groups), options_(options) {
  for (const Param& p : model.table()) ranges_.push_back({{p.offset, p.local_elements()}, p.decay});
}

Executor::Staged Executor::stage(const Batch& b, bool training) {
  const ModelEnv& e = model_->env();
  const int64_t m = b.n * b.seq_len;
  Staged s;
  const auto put = [&](ArenaTensor& t, const Shape& shape, const void* host) {
    t = e.arena->alloc(DType::i32, shape);
    e.ops->copy_in(t, host);
  };
  put(s.ids, {m}, b.tokens.data());
  put(s.targets, {m}, b.targets.data());
  put(s.positions, {m}, b.positions.data());
  std::vector<int32_t> words;
  for (const uint64_t id : b.sample_ids) {
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id)));
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id >> 32)));
  }
  put(s.sample_ids, {b.n, 2}, words.data());
  const bool masked = std::any_of(b.doc_start.begin(), b.doc_start.end(), [](int32_t start) { return start != 0; });
  if (masked) put(s.doc_start, {b.n, b.seq_len}, b.doc_start.data());
  s.view = {b.n, b.seq_len, s.ids, s.targets, s.positions, s.doc_start, s.sample_ids, training};
  return s;
}

LossSums& LossSums::operator+=(const LossSums& o) {
  loss += o.loss;
  z += o.z;
  units += o.units;
  target_bytes += o.target_bytes;
  margin += o.margin;
  preferred += o.preferred;
  return *this;
}

namespace {

// Units of loss in a batch.
int64_t units_of(const Batch& b, const ExecutorOptions& o) { return o.dpo ? b.n / 2 : b.valid_targets; }

std::vector<float> to_host(Ops& ops, const Tensor& loss) {
  std::vector<float> rows(static_cast<size_t>(loss.elements()));
  ops.copy_out(rows.data(), loss);
  return rows;
}

// Token losses [n*T,2] to the cross entropy of each row.
std::vector<double> sum_rows(const Batch& b, const std::vector<float>& loss) {
  std::vector<double> sums(static_cast<size_t>(b.n));
  for (size_t i = 0; i < loss.size(); i += 2) sums[i / 2 / static_cast<size_t>(b.seq_len)] += loss[i];
  return sums;
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

LossSums Executor::sums(const Batch& b, const Tensor& loss, std::vector<double>* row_scales) const {
  const std::vector<float> host = to_host(*model_->env().ops, loss);
  LossSums s;
  s.units = units_of(b, options_);
  s.target_bytes = b.target_bytes;
  for (size_t i = 0; i < host.size(); i += 2) {
    if (!options_.dpo) s.loss += host[i];
    s.z += static_cast<double>(host[i + 1]) * host[i + 1];
  }
  if (options_.dpo) add_pairs(b, sum_rows(b, host), *options_.dpo, s, row_scales);
  return s;
}

LossSpec Executor::loss_spec(std::span<const Batch> micro_batches) const {
  double units = 0;
  for (const Batch& b : micro_batches) units += static_cast<double>(units_of(b, options_));
  groups_.data->all_reduce(std::span(&units, 1));
  return {1.0 / std::max(units, 1.0), options_.z_loss, options_.loss_chunk};
}

LossSums Executor::accumulate(std::span<const Batch> micro_batches) {
  const ModelEnv& e = model_->env();
  LossSpec spec = loss_spec(micro_batches);
  e.params->begin_step();
  LossSums total;
  std::vector<BlockState> states(model_->blocks().size());
  std::vector<double> row_scales;
  for (const Batch& b : micro_batches) {
    const Staged staged = stage(b, true);
    const MicroBatch& batch = staged.view;
    const ArenaTensor loss = e.alloc_f32({batch.rows(), 2});
    ArenaTensor x = model_->stem().forward(batch);
    for (size_t l = 0; l < states.size(); ++l) x = model_->blocks()[l].forward(std::move(x), batch, states[l]);
    if (options_.dpo) {  // how hard to pull on an answer depends on both answers of its pair
      model_->head().forward(x, batch, loss, spec);
      row_scales.clear();
      total += sums(b, loss, &row_scales);
      spec.sample_scales = row_scales;
    }
    x = model_->head().forward_backward(std::move(x), batch, loss, spec);
    for (size_t l = states.size(); l-- > 0;) {
      x = model_->blocks()[l].backward_input(std::move(x), batch, states[l]);
      model_->blocks()[l].backward_weight(states[l]);
    }
    model_->stem().backward_weight(std::move(x), batch);
    if (!options_.dpo) total += sums(b, loss);
  }
  e.params->finish_gradients(*e.ops);
  return total;
}

GradientNorm Executor::gradient_norm() {
  const ModelEnv& e = model_->env();
  const ArenaTensor scratch = e.alloc_f32({static_cast<int64_t>(ranges_.size())});
  double sum = 0;
  for (const float s : squares_by_range(*e.ops, e.params->grads(), ranges_, scratch)) sum += s;
  return {std::sqrt(sum), std::isfinite(sum)};
}

void Executor::update(const OptimizerSection& spec, double lr, int64_t step, double norm) {
  const ModelEnv& e = model_->env();
  ParamStore& p = *e.params;
  const FlatState state{p.master(), p.moment1(), p.moment2(), p.grads(),
                        p.compute() == DType::f32 || options_.rounding_seed ? Tensor{} : p.weights()};
  adamw_step(*e.ops, state, ranges_, spec, lr, step, clip_scale(norm, spec.grad_clip));
  restore_weights(step);
  e.ops->weights_changed();
}

void Executor::restore_weights(int64_t step) {
  const ModelEnv& e = model_->env();
  if (options_.rounding_seed && step > 0) e.params->round_weights(*e.ops, *options_.rounding_seed, step);
}

ArenaTensor Executor::forward(const MicroBatch& batch) {
  ArenaTensor x = model_->stem().forward(batch);
  for (const Block& block : model_->blocks()) {
    BlockState state;
    x = block.forward(std::move(x), batch, state);
  }
  return x;
}

LossSums Executor::evaluate(const Batch& b) {
  const Staged staged = stage(b, false);
  const ArenaTensor loss = model_->env().alloc_f32({staged.view.rows(), 2});
  model_->head().forward(forward(staged.view), staged.view, loss, {1.0, 0.0, options_.loss_chunk});
  return sums(b, loss);
}

std::vector<double> Executor::row_losses(const Batch& b) {
  const Staged staged = stage(b, false);
  const ArenaTensor loss = model_->env().alloc_f32({staged.view.rows(), 2});
  model_->head().forward(forward(staged.view), staged.view, loss, {1.0, 0.0, options_.loss_chunk});
  return sum_rows(b, to_host(*model_->env().ops, loss));
}

std::vector<float> Executor::logits(const Batch& b) {
  const Staged staged = stage(b, false);
  std::vector<float> out(static_cast<size_t>(staged.view.rows() * model_->architecture().vocab));
  model_->head().logits(forward(staged.view), out);
  return out;
}

}  // namespace fp
