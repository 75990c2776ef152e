#include "exec/gradient_sync.h"

#include <algorithm>
#include <utility>

namespace fp {

GradientSync::GradientSync(const ModelEnv& env, const Groups& groups, bool check, GradientGuard* guard)
    : env_(&env),
      data_(groups.data),
      in_node_(groups.data_in_node),
      across_nodes_(groups.data_across_nodes),
      copies_(groups.copies),
      ends_(groups.ends),
      shards_(env, *data_, in_node_.get(), across_nodes_.get()),
      attached_(env.params->table().units().size()),
      guard_(guard) {
  if (check) check_.emplace(env, *data_, ends_.get());
  if (!env.formats.gradients || !env.formats.gradients->rotated) return;
  for (const ParamUnit& u : env.params->table().units()) gaps_.push_back(env.params->table().gaps_and_padding(u));
}

GradientSync::~GradientSync() {
  try {
    free_departed();
  } catch (...) {  // another error ends the run; the memory must still outlive the copy
  }
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
  settle(rest());
  advance();
  if (store.uses_attached_gradients())
    reduce_attached(unit, u, last);
  else
    reduce_kept(unit, u);
  reduced_[static_cast<size_t>(unit)] = true;
}

size_t GradientSync::rest() const {
  const ParamStore& store = *env_->params;
  const bool take_memory = store.gradients_sharded() || store.weights_on_host() ||
                           (store.state_sharded() && !shards_.sums_in_place()) || !env_->world->queues_collectives();
  if (!take_memory && !when_complete_) return attached_.size();
  return shards_.sums_have_two_hops() && !when_complete_ && !store.weights_on_host() ? 1 : 0;
}

void GradientSync::advance() {
  for (Reduction& r : in_flight_) r.shard.advance();
}

void GradientSync::end_step() {
  advance();
  settle();
  free_departed();
  if (!ends_) return;
  const ParamStore& store = *env_->params;
  const int shared = store.table().divided_unit();
  const ParamUnit& u = store.table().units()[static_cast<size_t>(shared)];
  const Tensor gradient = store.state_sharded() ? store.shard_of_gradients(u) : store.unit_gradients(u);
  ends_->all_reduce(gradient);
  if (when_complete_) when_complete_(shared, gradient);
}

void GradientSync::before_send(int unit, const Tensor& whole) {
  if (outlier_) apply(*outlier_, *env_, env_->params->table().units()[static_cast<size_t>(unit)], whole);
  if (flip_sent_) flip_bit(*env_->ops, whole, *std::exchange(flip_sent_, std::nullopt));
  if (check_) check_->before(unit, whole);
}

void GradientSync::start_sum(Reduction& r, const Tensor& whole) {
  if (!r.sharded) {
    r.request = data_->start_all_reduce(whole);
    return;
  }
  const ParamUnit& u = env_->params->table().units()[static_cast<size_t>(r.unit)];
  // The first and last pipeline rank each quantize a sum of the shared embedding, but checkpoints store only one copy.
  const Tensor errors = is_shared(r.unit) ? Tensor() : env_->params->errors(u);
  if (guard_ == nullptr) {
    r.shard = shards_.start_reduce_scatter(r.result, whole, errors);
    return;
  }
  if (r.last) guard_->sample(r.unit, whole);
  r.shard = shards_.start_reduce_scatter(r.result, whole, guard_->parts(r.unit), u.last - u.first + 1, errors);
}

void GradientSync::reduce_kept(int unit, const ParamUnit& u) {
  const ParamStore& store = *env_->params;
  const Tensor whole = store.unit_gradients(u);
  Reduction r;
  r.unit = unit;
  r.sharded = store.state_sharded();
  r.result = r.sharded ? store.shard_of_gradients(u) : whole;
  before_send(unit, whole);
  start_sum(r, whole);
  in_flight_.push_back(std::move(r));
}

void GradientSync::reduce_attached(int unit, const ParamUnit& u, bool last) {
  const bool first = !reduced_[static_cast<size_t>(unit)];
  ParamStore& store = *env_->params;
  ArenaTensor work = std::move(attached_[static_cast<size_t>(unit)]);
  store.attach_gradients(unit, {});
  if (!store.gradients_sharded() && !store.weights_on_host()) {
    accumulate(store.unit_gradients(u), work, first);
    work.reset();
    if (last) reduce_kept(unit, u);
    return;
  }
  FP_CHECK(!store.weights_on_host() || (first && last), "gradients in host memory are reduced once per step");
  work = narrowed(std::move(work));
  const IndexRange own = store.table().shard_of(u, store.table().shard());
  Reduction r;
  r.unit = unit;
  r.last = last;
  r.sharded = store.gradients_sharded();
  r.result = r.sharded ? work->slice(own.first - u.offset, own.count) : *work;
  before_send(unit, work);
  start_sum(r, work);
  r.memory = std::move(work);
  r.target = store.held_gradients(u);
  r.first = first;
  in_flight_.push_back(std::move(r));
  if (store.weights_on_host() && data_->size() == 1) settle();
}

ArenaTensor GradientSync::narrowed(ArenaTensor gradients) const {
  const DType kept = env_->params->options().gradients;
  if (kept == DType::f32) return gradients;
  ArenaTensor narrow = env_->arena->alloc(kept, gradients->shape, MemoryClass::gradients);
  env_->ops->cast({narrow, gradients});
  return narrow;
}

void GradientSync::depart(const Tensor& home, const Tensor& gradient, ArenaTensor memory) {
  free_departed();
  departure_ = env_->ops->copies().start(home, gradient);
  departing_ = std::move(memory);
}

void GradientSync::free_departed() {
  if (departure_.number > 0) env_->ops->copies().wait(std::exchange(departure_, {}));
  departing_.reset();
}

void GradientSync::settle(size_t rest) {
  while (in_flight_.size() > rest) {
    Reduction done = std::move(in_flight_.front());
    in_flight_.pop_front();
    finish(std::move(done));
  }
}

void GradientSync::finish(Reduction r) {
  r.request.wait();
  r.shard.wait();
  if (flip_received_) flip_bit(*env_->ops, r.result, *std::exchange(flip_received_, std::nullopt));
  if (r.sharded) clear_gaps(r);
  const bool departs = r.target.residence == Residence::host;
  if (r.target && !departs) accumulate(r.target, r.result, r.first);
  if (when_complete_ && r.last && !is_shared(r.unit))
    when_complete_(r.unit, r.target && !departs ? r.target : r.result);
  if (departs) depart(r.target, r.result, std::move(r.memory));
}

// The end of a parameter is rotated together with the zeros behind it, which are then not exactly 0.
void GradientSync::clear_gaps(const Reduction& r) const {
  if (gaps_.empty()) return;
  const ParamStore& store = *env_->params;
  const ParamTable& table = store.table();
  const ParamUnit& u = table.units()[static_cast<size_t>(r.unit)];
  const auto clear = [&](const Tensor& values, const IndexRange& range) {
    for (const IndexRange& gap : gaps_[static_cast<size_t>(r.unit)]) {
      const int64_t begin = std::max(gap.first, range.first),
                    end = std::min(gap.first + gap.count, range.first + range.count);
      if (begin < end) env_->ops->zero({values.slice(begin - range.first, end - begin)});
    }
  };
  clear(r.result, table.shard_of(u, table.shard()));
  const Tensor errors = is_shared(r.unit) ? Tensor() : store.errors(u);
  if (!errors) return;
  const std::vector<IndexRange> kept = table.ranges_of(u, table.shard(), table.error_slot());
  for (size_t i = 0; i < kept.size(); ++i)
    clear(errors.slice(static_cast<int64_t>(i), 1).reshaped({kept[i].count}), kept[i]);
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

void GradientSync::sum_segments(const std::vector<IndexRange>& segments, const Tensor& gradients, int64_t offset,
                                Group& group) {
  int64_t total = 0;
  for (const IndexRange& s : segments) total += s.count;
  if (total == 0 || group.size() == 1) return;
  const ArenaTensor packed = env_->arena->alloc(DType::f32, {total}, MemoryClass::gradients);
  const auto each = [&](const auto& state_of) {
    int64_t at = 0;
    for (const IndexRange& s : segments) {
      state_of(packed->slice(at, s.count), gradients.slice(s.first - offset, s.count));
      at += s.count;
    }
  };
  each([&](const Tensor& to, const Tensor& from) { env_->ops->copy({to, from}); });
  group.all_reduce(packed);
  each([&](const Tensor& from, const Tensor& to) { env_->ops->copy({to, from}); });
}

}  // namespace fp
