#include "exec/weight_gather.h"

#include <utility>

namespace fp {

void WeightGather::start(int unit) {
  Unit& u = units_[static_cast<size_t>(unit)];
  if (u.memory) return;
  const ParamStore& store = *env_->params;
  const ParamUnit& table_unit = store.table().units()[static_cast<size_t>(unit)];
  u.memory = env_->arena->alloc(store.compute(), {table_unit.elements}, MemoryClass::parameters);
  u.request = data_->start_all_gather(u.memory, store.shard_of_weights(table_unit));
}

void WeightGather::acquire(int unit, int next) {
  if (!env_->params->weights_sharded()) return;
  start(unit);
  Unit& u = units_[static_cast<size_t>(unit)];
  ++u.uses;
  if (!u.gathered) {
    u.request.wait();
    u.gathered = true;
    env_->params->attach_weights(unit, u.memory);
    env_->ops->weights_changed();
  }
  if (next >= 0) start(next);
}

void WeightGather::hold(int unit) {
  if (!env_->params->weights_sharded()) return;
  start(unit);
  ++units_[static_cast<size_t>(unit)].uses;
}

void WeightGather::release(int unit) {
  if (!env_->params->weights_sharded()) return;
  Unit& u = units_[static_cast<size_t>(unit)];
  FP_CHECK(u.uses > 0, "the weights of unit {} are released, but not in use", unit);
  if (--u.uses > 0) return;
  u.request.wait();  // held, but never needed
  u.gathered = false;
  env_->params->attach_weights(unit, {});
  u.memory.reset();
}

void WeightGather::all_gather_updated() {
  const ParamStore& store = *env_->params;
  if (store.state_sharded() && !store.weights_sharded()) {
    Request before;
    for (const ParamUnit& u : store.table().units()) {
      Request now = data_->start_all_gather(store.unit_weights(u), store.shard_of_weights(u));
      before.wait();
      before = std::move(now);
    }
    before.wait();
  }
  env_->ops->weights_changed();
}

}  // namespace fp
