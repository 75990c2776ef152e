#include "exec/executor.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "exec/state_stream.h"
#include "exec/update_sums.h"

namespace fp {

Executor::Executor(Model& model, const ExecutorOptions& options)
    : model_(&model),
      groups_(model.groups()),
      options_(options),
      plan_(options.pipeline ? *options.pipeline
                             : single_stage(model.architecture().layers, model.params().uses_attached_gradients() &&
                                                                             !model.params().weights_on_host())),
      weights_(model.env(), groups_),
      guard_(make_gradient_guard(model.env(), groups_, options.max_gradient_error, model.tensor_tables(),
                                 options.assume_within_limit)),
      gradients_(model.env(), groups_, options.check_sums, gradient_guard()),
      losses_(model.env(), groups_, options.loss),
      links_(plan_.placement, groups_,
             {plan_.lowering.sends_in_flight, !model.env().tokens.megatron,
              breadth_first() && model.env().host != nullptr ? &model.env() : nullptr}),
      stages_(model, groups_, plan_.stages, losses_, weights_, gradients_, breadth_first()) {
  if (options.early_gradients && options.device_share < 1) {
    early_.emplace(model.env(), options.device_share);
    gradients_.when_complete([this](int unit, const Tensor&) { early_->send(unit); });
  }
  if (model.params().weights_on_host()) {
    squares_.emplace(model.env());
    gradients_.when_complete([this](int unit, const Tensor& kept) {
      const ParamStore& store = model_->params();
      const ParamUnit& u = store.table().units()[static_cast<size_t>(unit)];
      const IndexRange own = store.table().shard_of(u, store.table().shard());
      squares_->add(unit, store.gradients_sharded() ? kept : kept.slice(own.first - u.offset, own.count));
    });
  }
  if (groups_.matrices) matrices_.emplace(model.env(), *groups_.matrices, model.tensor_tables());
}

const Schedule& Executor::step_schedule(int micro_batches) {
  auto it = steps_.find(micro_batches);
  if (it == steps_.end()) it = steps_.emplace(micro_batches, plan_.step(micro_batches)).first;
  return it->second;
}

LossSums Executor::accumulate(std::span<const Batch> micro_batches) {
  const Schedule& schedule = step_schedule(static_cast<int>(micro_batches.size()));
  const LossSpec spec = losses_.spec(micro_batches);
  if (early_) early_->begin_step();
  gradients_.begin_step();
  stages_.begin_step(schedule, micro_batches, spec);
  run_actions(schedule, groups_.at.pp, stages_, links_);
  gradients_.end_step();
  LossSums total;
  for (const LossSums& s : stages_.end_step()) total += s;
  return total;
}

GradientNorm Executor::gradient_norm() {
  LossSums none;
  return gradient_norm(none);
}

GradientNorm Executor::gradient_norm(LossSums& sums) {
  const ModelEnv& e = model_->env();
  const ParamTable& table = model_->table();
  e.arena->enter({"gradient norm"});
  const double sum = squares_ ? squares_->sum() : [&] {
    GradientSquares squares(e);
    for (size_t u = 0; u < table.units().size(); ++u)
      squares.add(static_cast<int>(u), e.params->shard_of_gradients(table.units()[u]));
    return squares.sum();
  }();
  // Tensor ranks have the same losses, so those of one are summed; a non-finite loss counts from each.
  constexpr size_t kNumbers = 1 + LossSums::kNumbers;
  std::vector<double> values(kNumbers, sum);
  std::ranges::copy((groups_.at.tp == 0 ? sums : LossSums{.loss = std::isfinite(sums.loss) ? 0 : sums.loss}).numbers(),
                    values.begin() + 1);
  if (guard_) std::ranges::copy(guard_->errors(), std::back_inserter(values));
  groups_.world->all_reduce(values);
  sums = LossSums::from(std::span(values).subspan<1, LossSums::kNumbers>());
  // One element that is far too large overflows the norm; such a step is skipped.
  const bool finite = std::isfinite(values[0]);
  if (guard_) finite ? guard_->choose(std::span(values).subspan(kNumbers)) : guard_->keep();
  if (!finite && gradients_.check() != nullptr) gradients_.check()->verify();
  if (!finite) e.params->clear_errors(*e.ops);
  return {std::sqrt(values[0]), finite};
}

Executor::GradientChecksums Executor::gradient_checksums() {
  GradientChecksums checksums;
  if (gradients_.check() != nullptr) checksums.contributed = gradients_.check()->checksums();
  for (const ParamUnit& u : model_->table().units()) {
    const StateSums::Sums sums = bit_sums_of(model_->env(), model_->params().shard_of_gradients(u));
    checksums.reduced.insert(checksums.reduced.end(), sums.begin(), sums.end());
  }
  return checksums;
}

void Executor::set_outlier(const GradientOutlier& outlier) {
  check(outlier, model_->table());
  gradients_.set_outlier(outlier);
}

void Executor::flip(Flipped what, const BitFlip& flip) {
  const ModelEnv& e = model_->env();
  settle_weights();
  switch (what) {
    case Flipped::weights:
      flip_bit(*e.ops, e.params->master(), flip);
      e.ops->weights_changed();
      break;
    case Flipped::moments:
      flip_bit(*e.ops, e.params->slot(kParamSlot + 1), flip);
      break;
    case Flipped::gradients:
    case Flipped::sums:
      gradients_.flip_next(flip, what == Flipped::sums);
      break;
  }
}

StateSums Executor::update(const OptimizerSection& spec, double lr, int64_t step, double norm, bool sum_state) {
  const ModelEnv& e = model_->env();
  const ParamStore& store = *e.params;
  e.arena->enter({"optimizer update"});
  if (options_.error_feedback_steps > 0 && step % options_.error_feedback_steps == 0) e.params->clear_errors(*e.ops);
  if (early_) early_->send_rest();
  const bool round_later = store.compute() == DType::f32 || options_.rounding_seed || weights_.sends_differences();
  const UpdateStep update{lr, step, clip_scale(norm, spec.grad_clip)};
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(spec);
  const std::vector<Subgroup> subgroups = subgroups_of(store);
  std::optional<UpdateSums> sums;  // outlives the stream, whose work writes into it
  StateStream stream(
      e, subgroups, Subgroup::Slots::all,
      {options_.device_share, options_.synchronous_update, !weights_.sends_differences(), early_ ? &*early_ : nullptr});
  sums.emplace(e, subgroups, stream, sum_state, gradients_.check() != nullptr && groups_.data->size() > 1);
  const bool passing = stream.passes(kParamSlot);
  const auto rounding = [&](const ParamPart& p, const Tensor& weights, const Tensor& master) {
    return store.rounding(*options_.rounding_seed, step, p, weights, master);
  };
  const bool rounds = options_.rounding_seed && passing;
  const auto ranges_of = [&](size_t i) {
    std::vector<ParamRange> ranges;
    for (const ParamPart& p : subgroups[i].parts) ranges.push_back(stream.range_of(i, p));
    return ranges;
  };
  if (matrices_)
    matrices_->begin(spec, lr, [&](const ParamPart& p, const Tensor& master) {
      if (!round_later) e.ops->cast({store.kept_weights(p), master});
      if (rounds) e.ops->round_stochastically(rounding(p, store.kept_weights(p), master));
    });
  const auto on_device = [&](size_t i, UpdateTensors tensors) {
    const std::vector<ParamRange> ranges = ranges_of(i);
    const Tensor weights = tensors.weights;
    if (round_later) tensors.weights = {};
    optimizer->update(*e.ops, tensors, ranges, update, sums->of_subgroup(i));
    for (size_t r = 0; rounds && r < ranges.size(); ++r)
      if (const IndexRange& s = ranges[r].segment; !matrices_ || !ranges[r].matrix)
        e.ops->round_stochastically(
            rounding(subgroups[i].parts[r], weights.slice(s.first, s.count), tensors.param.slice(s.first, s.count)));
    if (matrices_) matrices_->add(subgroups[i].range, tensors.gradient);
  };
  const auto on_host = [&](size_t i, UpdateTensors tensors, const CopyTicket& after) {
    const std::vector<ParamRange> ranges = ranges_of(i);
    const Tensor weights = tensors.weights;
    if (round_later) tensors.weights = {};
    CopyTicket last = optimizer->update_on_host(*e.ops, tensors, ranges, update, after, sums->of_subgroup(i));
    for (size_t r = 0; options_.rounding_seed && r < ranges.size(); ++r) {
      const auto part = [s = ranges[r].segment](const Tensor& t) { return t.slice(s.first, s.count); };
      last = e.ops->start_on_host(rounding(subgroups[i].parts[r], part(weights), part(tensors.param)), last);
    }
    return last;
  };
  stream.run({on_device, on_host});
  if (matrices_) matrices_->finish();
  if (gradients_.check() != nullptr) gradients_.check()->verify(sums->gradients());
  if (options_.rounding_seed && !passing) e.params->round_weights(*e.ops, *options_.rounding_seed, step);
  if (weights_.sends_differences()) stream.finish();  // reads the parameters, which may be in host memory
  complete_update();
  stream.finish();
  return sums->state(!round_later, !matrices_);
}

void Executor::complete_update() {
  if (weights_.sends_differences())
    weights_.add_differences();
  else if (model_->env().overlap)
    weights_.start_all_gather();
  else
    weights_.all_gather();
}

void Executor::restore_weights(int64_t step) {
  const ModelEnv& e = model_->env();
  if (options_.rounding_seed && step > 0) e.params->round_weights(*e.ops, *options_.rounding_seed, step);
  weights_.all_gather();
  if (!weights_.sends_differences()) return;
  // Nodes take what they keep now, as later after updates, before there are activations.
  for (int u = 0; u < static_cast<int>(model_->table().units().size()); ++u) {
    weights_.acquire(u);
    weights_.release(u);
  }
}

std::vector<ArenaTensor> Executor::token_losses(std::span<const Batch> batches) {
  // Two pipes need the same number of batches: the last of an odd number is run twice.
  std::vector<Batch> even;
  if (const size_t odd = batches.size() % static_cast<size_t>(plan_.placement.pipes()); odd != 0) {
    even.assign(batches.begin(), batches.end());
    even.push_back(batches.back());
    batches = even;
  }
  const int n = static_cast<int>(batches.size());
  auto it = evaluations_.find(n);
  if (it == evaluations_.end()) it = evaluations_.emplace(n, plan_.evaluation(n)).first;
  stages_.begin_evaluation(it->second, batches);
  run_actions(it->second, groups_.at.pp, stages_, links_);
  return stages_.end_evaluation();
}

std::vector<LossSums> Executor::evaluate(std::span<const Batch> batches, const OnTargets& on_targets) {
  const std::vector<ArenaTensor> losses = token_losses(batches);
  std::vector<LossSums> sums(batches.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!losses[i]) continue;
    sums[i] = losses_.sums(batches[i], losses[i]);
    if (on_targets) on_targets(i, losses_.targets(batches[i], losses[i]));
  }
  return sums;
}

std::vector<double> Executor::row_losses(const Batch& b) {
  const std::vector<ArenaTensor> losses = token_losses(std::span(&b, 1));
  std::vector<double> rows(static_cast<size_t>(b.n));
  if (losses[0]) rows = losses_.rows(b, losses[0]);
  groups_.pipeline->all_reduce(rows);
  return rows;
}

std::vector<float> Executor::logits(const Batch& b) {
  settle_weights();
  std::vector<float> out(static_cast<size_t>(b.n * b.seq_len * model_->architecture().vocab));
  model_->head().logits(stages_.hidden(b), out);
  return out;
}

}  // namespace fp
