#include "exec/state_stream.h"

#include <algorithm>

namespace fp {
namespace {

Tensor& slot_of(UpdateTensors& t, size_t slot) { return slot == kParamSlot ? t.param : t.states[slot - 1]; }

bool takes(Subgroup::Slots slots, size_t slot) {
  return slots == Subgroup::Slots::all || (slots == Subgroup::Slots::param) == (slot == kParamSlot);
}

}  // namespace

StateStream::StateStream(const ModelEnv& env, const std::vector<Subgroup>& subgroups, Subgroup::Slots slots,
                         const Options& o)
    : env_(&env),
      subgroups_(&subgroups),
      early_(o.early),
      streams_(std::ranges::any_of(env.params->table().slots(),
                                   [](const StateSlot& s) { return s.residence == Residence::host; })),
      uses_device_(!streams_ || (o.device_share > 0 && !o.synchronous)),
      uses_host_(streams_ && (o.device_share < 1 || o.synchronous)),
      schedule_(streams_ && o.synchronous ? synchronous_schedule(subgroups.size())
                                          : interleaved_schedule(places_of(subgroups, streams_ ? o.device_share : 1))) {
  verify(schedule_);
  FP_CHECK(!uses_host_ || !env.params->table().slots_differ(), "matrices are updated on the device");
  allocate(slots, most_elements(*env.params), o.weights);
}

// All ranks need equal memory, whether or not their subgroups are the same.
void StateStream::allocate(Subgroup::Slots slots, int64_t elements, bool weights) {
  const ParamStore& store = *env_->params;
  const std::vector<StateSlot>& all = store.table().slots();
  const DType gradients = store.options().gradients;
  if (slots == Subgroup::Slots::all && gradients != DType::f32 && uses_device_) wide_ = env_->alloc_f32({elements});
  if (!streams_) return;
  device_.resize(schedule_.buffers.device);
  for (DeviceBuffer& b : device_) {
    b.slots.resize(static_cast<size_t>(store.table().updated_slots()));
    for (size_t s = 0; s < b.slots.size() && uses_device_; ++s)
      if (passes(static_cast<int>(s)) && takes(slots, s))
        b.slots[s] = env_->arena->alloc(all[s].dtype, {elements}, MemoryClass::optimizer);
    if (!uses_device_ || !store.weights_on_host() || slots != Subgroup::Slots::all) continue;
    b.gradient = env_->arena->alloc(gradients, {elements}, MemoryClass::gradients);
    if (store.compute() != DType::f32)
      b.weights = env_->arena->alloc(store.compute(), {elements}, MemoryClass::parameters);
  }
  if (!uses_host_) return;
  Arena& arena = store.host_arena();
  host_.resize(schedule_.buffers.host);
  for (HostBuffer& b : host_) {
    if (store.weights_on_host()) continue;
    if (early_ == nullptr) b.gradient = arena.alloc(gradients, {elements}, MemoryClass::gradients);
    if (!passes(kParamSlot)) b.param = arena.alloc(DType::f32, {elements}, MemoryClass::optimizer);
    if (weights && store.compute() != DType::f32)
      b.weights = arena.alloc(store.compute(), {elements}, MemoryClass::parameters);
  }
  if (gradients != DType::f32) wide_on_host_ = arena.alloc(DType::f32, {elements}, MemoryClass::gradients);
}

StateStream::~StateStream() {
  try {
    finish();
    // An error may have ended an update between the ops of a subgroup, the last of which no buffer knows.
    Copies& copies = env_->ops->copies();
    copies.wait({CopyLane::on_host, copies.total(CopyLane::on_host).copies});
  } catch (...) {  // another error ends the run; the buffers must still outlive the work of the lanes
  }
}

bool StateStream::passes(int slot) const {
  return env_->params->table().slots()[static_cast<size_t>(slot)].residence == Residence::host;
}

void StateStream::run(const Updates& updates) {
  for (const UpdateAction& a : schedule_.actions) {
    switch (a.kind) {
      case UpdateKind::fetch:
        fetch(a);
        break;
      case UpdateKind::update_on_device:
        update_on_device(a, updates);
        break;
      case UpdateKind::write_back:
        write_back(a);
        break;
      case UpdateKind::send_gradient:
        send_gradient(a);
        break;
      case UpdateKind::update_on_host:
        update_on_host(a, updates);
        break;
      case UpdateKind::send_weights:
        send_weights(a);
        break;
    }
    if (schedule_.synchronous) env_->ops->copies().wait_for_all();
  }
  for (const HostBuffer& b : host_) env_->ops->copies().wait(b.emptied);
  wide_.reset();
  wide_on_host_.reset();
}

template <class Use>
void StateStream::for_each_passing(const UpdateAction& a, const Use& use) {
  if (device_.empty()) return;
  const DeviceBuffer& b = device_[a.buffer];
  UpdateTensors home = at_home(a.subgroup);
  for (size_t s = 0; s < b.slots.size(); ++s) {
    const Tensor& tensor = slot_of(home, s);
    if (b.slots[s] && takes((*subgroups_)[a.subgroup].slots, s) && tensor.elements() > 0)
      use(s, b.slots[s]->slice(0, tensor.elements()), tensor);
  }
}

template <class Use>
void StateStream::for_each_run(size_t subgroup, const Use& use) const {
  const std::vector<ParamPart>& parts = (*subgroups_)[subgroup].parts;
  for (size_t i = 0; i < parts.size();) {
    IndexRange s = range_of(subgroup, parts[i]).segment;
    for (++i; i < parts.size(); ++i) {
      const IndexRange next = range_of(subgroup, parts[i]).segment;
      if (next.first != s.first + s.count) break;
      s.count += next.count;
    }
    use(s);
  }
}

void StateStream::fetch(const UpdateAction& a) {
  if (device_.empty()) return;
  DeviceBuffer& b = device_[a.buffer];
  const auto copy = [&](const Tensor& buffer, const Tensor& home) {
    b.filled = env_->ops->copies().start(buffer, home, b.emptied);
  };
  for_each_passing(a, [&](size_t, const Tensor& buffer, const Tensor& home) { copy(buffer, home); });
  const Tensor gradient = at_home(a.subgroup).gradient;
  if (b.gradient) copy(b.gradient->slice(0, gradient.elements()), gradient);
}

void StateStream::update_on_device(const UpdateAction& a, const Updates& updates) {
  UpdateTensors t = at_home(a.subgroup);
  if (!device_.empty()) env_->ops->copies().wait(device_[a.buffer].filled);
  for_each_passing(a, [&](size_t s, const Tensor& buffer, const Tensor&) { slot_of(t, s) = buffer; });
  if (!device_.empty()) {
    const DeviceBuffer& b = device_[a.buffer];
    if (b.gradient) t.gradient = b.gradient->slice(0, t.gradient.elements());
    if (b.weights) t.weights = b.weights->slice(0, t.weights.elements());
  }
  if (wide_) {
    const Tensor gradient = wide_->slice(0, t.gradient.elements());
    env_->ops->cast({gradient, t.gradient});
    t.gradient = gradient;
  }
  updates.on_device(a.subgroup, t);
}

void StateStream::write_back(const UpdateAction& a) {
  if (device_.empty()) return;
  DeviceBuffer& b = device_[a.buffer];
  const auto copy = [&](const Tensor& home, const Tensor& buffer) {
    b.emptied = env_->ops->copies().start(home, buffer);
  };
  for_each_passing(a, [&](size_t, const Tensor& buffer, const Tensor& home) { copy(home, buffer); });
  if (!b.weights) return;
  const Tensor home = at_home(a.subgroup).weights;
  for_each_run(a.subgroup,
               [&](const IndexRange& s) { copy(home.slice(s.first, s.count), b.weights->slice(s.first, s.count)); });
}

void StateStream::send_gradient(const UpdateAction& a) {
  HostBuffer& b = host_[a.buffer];
  const UpdateTensors t = at_home(a.subgroup);
  const auto send = [&](const ArenaTensor& to, const Tensor& from) {
    if (to) b.filled = env_->ops->copies().start(to->slice(0, from.elements()), from, b.emptied);
  };
  // The backward pass completes the first subgroups last, so the first update waits for all gradients, and those that
  // follow it in its lane only for their buffer.
  if (early_ != nullptr) b.filled = b.emptied.number > 0 ? b.emptied : early_->last();
  if (env_->params->weights_on_host()) b.filled = b.emptied;  // all is there since the backward pass
  send(b.gradient, t.gradient);
  send(b.param, t.param);
}

void StateStream::update_on_host(const UpdateAction& a, const Updates& updates) {
  HostBuffer& b = host_[a.buffer];
  UpdateTensors t = at_home(a.subgroup);
  const auto part = [&](const ArenaTensor& whole) { return whole->slice(0, t.param.elements()); };
  if (early_ != nullptr) t.gradient = early_->gradient(a.subgroup);
  if (b.gradient) t.gradient = part(b.gradient);
  if (b.param) t.param = part(b.param);
  if (b.weights) t.weights = part(b.weights);
  CopyTicket after = b.filled;
  if (wide_on_host_) {
    const Tensor gradient = part(wide_on_host_);
    after = env_->ops->start_on_host(calls::Cast{gradient, t.gradient}, after);
    t.gradient = gradient;
  }
  b.updated = updates.on_host(a.subgroup, t, after);
}

void StateStream::send_weights(const UpdateAction& a) {
  HostBuffer& b = host_[a.buffer];
  const UpdateTensors t = at_home(a.subgroup);
  const auto send = [&](const Tensor& to, const ArenaTensor& from, const IndexRange& s) {
    b.emptied = env_->ops->copies().start(to.slice(s.first, s.count), from->slice(s.first, s.count), b.updated);
  };
  if (b.param) send(t.param, b.param, {0, t.param.elements()});
  if (b.weights) for_each_run(a.subgroup, [&](const IndexRange& s) { send(t.weights, b.weights, s); });
  if (!b.param && !b.weights) b.emptied = b.updated;  // the update wrote them where they live
}

void StateStream::finish() {
  for (const DeviceBuffer& b : device_) {
    env_->ops->copies().wait(b.filled);
    env_->ops->copies().wait(b.emptied);
  }
  for (const HostBuffer& b : host_)
    for (const CopyTicket& t : {b.filled, b.updated, b.emptied}) env_->ops->copies().wait(t);
}

}  // namespace fp
