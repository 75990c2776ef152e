#include "exec/weight_gather.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace fp {

WeightGather::WeightGather(const ModelEnv& env, Group& data, Group* in_node, Group* across_nodes)
    : env_(&env),
      data_(&data),
      in_node_(in_node),
      shards_(env, data, in_node, across_nodes),
      units_(env.params->table().units().size()) {
  if (across_nodes == nullptr || !env.formats.node_weights || !env.params->weights_sharded()) return;
  for (size_t u = 0; u < units_.size(); ++u)
    units_[u].kept = env.arena->alloc(
        env.params->compute(), {env.params->table().units()[u].elements / in_node->size()}, MemoryClass::parameters);
}

WeightGather::WeightGather(const ModelEnv& env, const Groups& groups)
    : WeightGather(env, *groups.data, groups.data_in_node.get(), groups.data_across_nodes.get()) {}

WeightGather::~WeightGather() {
  try {
    if (std::uncaught_exceptions() == 0) settle();
    for (const Unit& u : units_)
      if (u.copy.number > 0) env_->ops->copies().wait(u.copy);
  } catch (...) {  // another error ends the run; the memory must still outlive the copies
  }
}

void WeightGather::start(int unit) {
  Unit& u = units_[static_cast<size_t>(unit)];
  if (u.memory) return;
  const ParamStore& store = *env_->params;
  const ParamUnit& table_unit = store.table().units()[static_cast<size_t>(unit)];
  u.memory = env_->arena->alloc(store.compute(), {table_unit.elements}, MemoryClass::parameters);
  if (!store.weights_on_host()) return begin_gather(u, unit);
  u.copy = env_->ops->copies().start(store.own_part(table_unit, u.memory), store.held_weights(table_unit));
  u.started = acquired_;
  copying_.push_back(unit);
}

void WeightGather::begin_gather(Unit& u, int unit) {
  const ParamStore& store = *env_->params;
  const ParamUnit& table_unit = store.table().units()[static_cast<size_t>(unit)];
  if (store.weights_on_host()) {
    env_->ops->copies().wait(std::exchange(u.copy, {}));
    std::erase(copying_, unit);
  }
  if (!store.weights_sharded()) return;
  if (u.is_kept) {
    u.gather = ShardExchange::Pending(in_node_->start_all_gather(u.memory, u.kept));
    return;
  }
  const Tensor part =
      store.weights_on_host() ? store.own_part(table_unit, u.memory) : store.shard_of_weights(table_unit);
  u.gather = shards_.start_gather(u.memory, part);
}

void WeightGather::acquire(int unit, int next) {
  arrive(static_cast<size_t>(unit) + 1);
  if (!env_->params->uses_attached_weights()) return;
  start(unit);
  ++acquired_;
  const auto is_due = [&](int other) {
    return env_->params->weights_sharded() && units_[static_cast<size_t>(other)].started + 1 < acquired_;
  };
  while (!copying_.empty() && is_due(copying_.front()))
    begin_gather(units_[static_cast<size_t>(copying_.front())], copying_.front());
  Unit& u = units_[static_cast<size_t>(unit)];
  ++u.uses;
  if (!u.ready) {
    if (u.copy.number > 0) begin_gather(u, unit);
    u.gather.wait();
    if (u.kept && !std::exchange(u.is_kept, true))
      env_->ops->copy({u.kept, u.memory->slice(in_node_->rank() * u.kept->elements(), u.kept->elements())});
    u.ready = true;
    env_->params->attach_weights(unit, u.memory);
    env_->ops->weights_changed();
  }
  if (next >= 0) start(next);
}

void WeightGather::hold(int unit) {
  if (!env_->params->uses_attached_weights()) return;
  start(unit);
  ++units_[static_cast<size_t>(unit)].uses;
}

void WeightGather::release(int unit) {
  if (!env_->params->uses_attached_weights()) return;
  Unit& u = units_[static_cast<size_t>(unit)];
  FP_CHECK(u.uses > 0, "the weights of unit {} are released, but not in use", unit);
  if (--u.uses > 0) return;
  // Held, but never needed.
  env_->ops->copies().wait(std::exchange(u.copy, {}));
  std::erase(copying_, unit);
  u.gather.wait();
  u.ready = false;
  env_->params->attach_weights(unit, {});
  u.memory.reset();
}

void WeightGather::arrive(size_t units) {
  for (; arrived_ < std::min(units, arriving_.size()); ++arrived_) arriving_[arrived_].wait();
}

void WeightGather::settle() { arrive(arriving_.size()); }

void WeightGather::start_all_gather() {
  const ParamStore& store = *env_->params;
  settle();
  if (!store.state_sharded() || store.uses_attached_weights() || !shards_.gathers_in_place()) return all_gather();
  arriving_.clear();
  arrived_ = 0;
  for (const ParamUnit& u : store.table().units())
    arriving_.push_back(shards_.start_gather(store.unit_weights(u), store.shard_of_weights(u)));
  env_->ops->weights_changed();
}

void WeightGather::all_gather() {
  const ParamStore& store = *env_->params;
  settle();
  for (Unit& u : units_) u.is_kept = false;
  if (store.state_sharded() && !store.uses_attached_weights()) {
    ShardExchange::Pending before;
    for (const ParamUnit& u : store.table().units()) {
      ShardExchange::Pending now = shards_.start_gather(store.unit_weights(u), store.shard_of_weights(u));
      before.wait();
      before = std::move(now);
    }
    before.wait();
  }
  env_->ops->weights_changed();
}

bool WeightGather::sends_differences() const {
  const ParamStore& store = *env_->params;
  if (!env_->formats.differences || data_->size() == 1) return false;
  return store.weights_sharded() ? static_cast<bool>(units_.front().kept) : store.state_sharded();
}

void WeightGather::add_differences() {
  const ParamStore& store = *env_->params;
  const auto& units = store.table().units();
  ShardExchange::Pending before;
  for (size_t u = 0; u < units.size(); ++u) {
    const Tensor home = store.state(kParamSlot, store.kept_range(units[u]));
    ArenaTensor buffer;
    if (home.residence == Residence::host) {
      buffer = env_->arena->alloc(home.dtype, home.shape, MemoryClass::optimizer);
      env_->ops->copies().wait(env_->ops->copies().start(buffer, home));
    }
    const Tensor mine = buffer ? *buffer : home;
    ShardExchange::Pending now;
    if (store.weights_sharded()) {
      Unit& unit = units_[u];
      if (!unit.is_kept) {
        acquire(static_cast<int>(u));
        release(static_cast<int>(u));
      }
      now = shards_.start_add_differences(unit.kept, store.shard_of_weights(units[u]), mine);
    } else {
      now = shards_.start_add_differences(store.unit_weights(units[u]), mine);
    }
    before.wait();
    before = std::move(now);
  }
  before.wait();
  env_->ops->weights_changed();
}

}  // namespace fp
