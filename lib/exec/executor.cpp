#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

LossSums Executor::sums(const Batch& b, const Tensor& loss) {
  std::vector<float> rows(static_cast<size_t>(loss.elements()));
  model_->env().ops->copy_out(rows.data(), loss);
  LossSums s;
  s.valid_targets = b.valid_targets;
  s.target_bytes = b.target_bytes;
  for (size_t i = 0; i < rows.size(); i += 2) {
    s.cross_entropy += rows[i];
    s.z += static_cast<double>(rows[i + 1]) * rows[i + 1];
  }
  return s;
}

LossSums Executor::accumulate(std::span<const Batch> micro_batches) {
  const ModelEnv& e = model_->env();
  double valid = 0;
  for (const Batch& b : micro_batches) valid += static_cast<double>(b.valid_targets);
  groups_.data->all_reduce_sum(std::span(&valid, 1));
  const LossSpec spec{1.0 / std::max(valid, 1.0), options_.z_loss, options_.loss_chunk};

  e.params->begin_step();
  LossSums total;
  std::vector<BlockState> states(model_->blocks().size());
  for (const Batch& b : micro_batches) {
    const Staged staged = stage(b, true);
    const MicroBatch& batch = staged.view;
    const ArenaTensor loss = e.alloc_f32({batch.rows(), 2});
    ArenaTensor x = model_->stem().forward(batch);
    for (size_t l = 0; l < states.size(); ++l) x = model_->blocks()[l].forward(std::move(x), batch, states[l]);
    x = model_->head().forward_backward(std::move(x), batch, loss, spec);
    for (size_t l = states.size(); l-- > 0;) {
      x = model_->blocks()[l].backward_input(std::move(x), batch, states[l]);
      model_->blocks()[l].backward_weight(states[l]);
    }
    model_->stem().backward_weight(std::move(x), batch);
    const LossSums s = sums(b, loss);
    total.cross_entropy += s.cross_entropy;
    total.z += s.z;
    total.valid_targets += s.valid_targets;
    total.target_bytes += s.target_bytes;
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
                        p.compute() == DType::f32 ? Tensor{} : p.weights()};
  adamw_step(*e.ops, state, ranges_, spec, lr, step, clip_scale(norm, spec.grad_clip));
  e.ops->weights_changed();
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

std::vector<float> Executor::logits(const Batch& b) {
  const Staged staged = stage(b, false);
  std::vector<float> out(static_cast<size_t>(staged.view.rows() * model_->architecture().vocab));
  model_->head().logits(forward(staged.view), out);
  return out;
}

}  // namespace fp
