#include "exec/gradient_sync.h"

#include <utility>

namespace fp {

GradientSync::GradientSync(const ModelEnv& env, const Groups& groups, bool check)
    : env_(&env),
      data_(groups.data),
      copies_(groups.copies),
      ends_(groups.ends),
      attached_(env.params->table().units().size()) {
  if (check) check_.emplace(env, *data_, ends_.get());
}

void GradientSync::begin_step() {
  env_->params->begin_step();
  reduced_.assign(attached_.size(), false);
  if (check_) check_->begin_step();
}

void GradientSync::open(int unit) {
  ArenaTensor& memory = attached_[static_cast<size_t>(unit)];
  if (!env_->params->uses_attached_gradients() || memory) return;
  const ParamUnit& u = env_->params->table().units()[static_cast<size_t>(unit)];
  memory = env_->arena->alloc(DType::f32, {u.elements}, MemoryClass::gradients);
  env_->params->attach_gradients(unit, memory);
}

void GradientSync::reduce(int unit, bool last) {
  ParamStore& store = *env_->params;
  const ParamUnit& u = store.table().units()[static_cast<size_t>(unit)];
  if (!store.uses_attached_gradients() && !last) return;
  open(unit);  // even without own gradients: other ranks may have some
  store.finish_gradients(*env_->ops, unit);
  sum_over_tensor_ranks(u, store.uses_attached_gradients() ? store.attached_gradients(unit) : store.unit_gradients(u));
  settle();
  if (store.uses_attached_gradients())
    reduce_attached(unit, u, last);
  else
    reduce_kept(unit, u);
  reduced_[static_cast<size_t>(unit)] = true;
}

void GradientSync::end_step() {
  settle();
  if (!ends_) return;
  const ParamStore& store = *env_->params;
  const int shared = store.table().divided_unit();
  const ParamUnit& u = store.table().units()[static_cast<size_t>(shared)];
  ends_->all_reduce(store.state_sharded() ? store.shard_of_gradients(u) : store.unit_gradients(u));
  if (when_complete_) when_complete_(shared);
}

void GradientSync::before_send(int unit, const Tensor& whole) {
  if (flip_sent_) flip_bit(*env_->ops, whole, *std::exchange(flip_sent_, std::nullopt));
  if (check_) check_->before(unit, whole);
}

void GradientSync::reduce_kept(int unit, const ParamUnit& u) {
  const ParamStore& store = *env_->params;
  const Tensor whole = store.unit_gradients(u);
  under_way_ = std::make_unique<Reduction>();
  under_way_->unit = unit;
  under_way_->sharded = store.state_sharded();
  under_way_->result = under_way_->sharded ? store.shard_of_gradients(u) : whole;
  before_send(unit, whole);
  under_way_->request =
      under_way_->sharded ? data_->start_reduce_scatter(under_way_->result, whole) : data_->start_all_reduce(whole);
}

void GradientSync::reduce_attached(int unit, const ParamUnit& u, bool last) {
  const bool first = !reduced_[static_cast<size_t>(unit)];
  ParamStore& store = *env_->params;
  ArenaTensor work = std::move(attached_[static_cast<size_t>(unit)]);
  store.attach_gradients(unit, {});
  if (!store.gradients_sharded()) {
    accumulate(store.unit_gradients(u), work, first);
    work.reset();
    if (last) reduce_kept(unit, u);
    return;
  }
  if (store.options().gradients != DType::f32) {
    ArenaTensor narrow = env_->arena->alloc(store.options().gradients, work->shape, MemoryClass::gradients);
    env_->ops->cast({narrow, work});
    work = std::move(narrow);
  }
  const Segment own = store.table().shard_of(u, store.table().shard());
  auto r = std::make_unique<Reduction>();
  r->result = work->slice(own.offset - u.offset, own.count);
  r->unit = unit;
  r->sharded = true;
  before_send(unit, work);
  r->request = data_->start_reduce_scatter(r->result, work);
  r->memory = std::move(work);
  r->target = store.shard_of_gradients(u);
  r->first = first;
  r->last = last;
  under_way_ = std::move(r);
}

void GradientSync::settle() {
  if (!under_way_) return;
  under_way_->request.wait();
  if (flip_received_) flip_bit(*env_->ops, under_way_->result, *std::exchange(flip_received_, std::nullopt));
  if (under_way_->target) accumulate(under_way_->target, under_way_->result, under_way_->first);
  const std::unique_ptr<Reduction> done = std::move(under_way_);
  if (when_complete_ && done->last && !is_shared(done->unit)) when_complete_(done->unit);
}

void GradientSync::accumulate(const Tensor& to, const Tensor& from, bool first) {
  Ops& ops = *env_->ops;
  if (first) return to.dtype == from.dtype ? ops.copy({to, from}) : ops.cast({to, from});
  ops.accumulate({to, from});
}

void GradientSync::sum_over_tensor_ranks(const ParamUnit& u, const Tensor& gradients) {
  const ParamTable& table = env_->params->table();
  sum_segments(table.copied(u), gradients, u.offset, *copies_);
  sum_segments(table.partial(u, env_->tokens.megatron), gradients, u.offset, *env_->tensor);
}

void GradientSync::sum_segments(const std::vector<Segment>& segments, const Tensor& gradients, int64_t offset,
                                Group& group) {
  int64_t total = 0;
  for (const Segment& s : segments) total += s.count;
  if (total == 0 || group.size() == 1) return;
  const ArenaTensor packed = env_->arena->alloc(DType::f32, {total}, MemoryClass::gradients);
  const auto each = [&](const auto& state_of) {
    int64_t at = 0;
    for (const Segment& s : segments) {
      state_of(packed->slice(at, s.count), gradients.slice(s.offset - offset, s.count));
      at += s.count;
    }
  };
  each([&](const Tensor& to, const Tensor& from) { env_->ops->copy({to, from}); });
  group.all_reduce(packed);
  each([&](const Tensor& from, const Tensor& to) { env_->ops->copy({to, from}); });
}

}  // namespace fp
