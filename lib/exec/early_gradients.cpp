#include "exec/early_gradients.h"

#include <algorithm>
#include <cmath>

namespace fp {

EarlyGradients::EarlyGradients(const ModelEnv& env, double device_share)
    : env_(&env),
      subgroups_(subgroups_of(*env.params)),
      places_(places_of(subgroups_, device_share)),
      sent_(subgroups_.size()) {
  int64_t elements = 0;
  for (size_t i = 0; i < subgroups_.size(); ++i) {
    first_.push_back(elements);
    if (places_[i] == UpdatePlace::host) elements += subgroups_[i].range.count;
  }
  const ParamStore& store = *env.params;
  // The host has at most one subgroup more than its share.
  int64_t all = 0;
  for (const ParamUnit& u : store.table().units()) all += store.kept_range(u).count;
  const auto share = static_cast<int64_t>(std::ceil((1 - device_share) * static_cast<double>(all)));
  const int64_t most = std::min(all, share + most_elements(store));
  FP_CHECK(elements <= most, "{} gradients for the host, not at most {}", elements, most);
  memory_ = store.host_arena().alloc(store.options().gradients, {most}, MemoryClass::gradients);
}

EarlyGradients::~EarlyGradients() {
  try {
    begin_step();
  } catch (...) {  // another error ends the run; the memory must still outlive the copies
  }
}

void EarlyGradients::begin_step() {
  for (CopyTicket& t : sent_) {
    env_->ops->copies().wait(t);
    t = {};
  }
}

void EarlyGradients::send_subgroup(size_t i) {
  sent_[i] = env_->ops->copies().start(gradient(i), env_->params->update_tensors(subgroups_[i].range).gradient);
}

void EarlyGradients::send(int unit) {
  for (size_t i = 0; i < subgroups_.size(); ++i)
    if (subgroups_[i].unit == unit && places_[i] == UpdatePlace::host) send_subgroup(i);
}

void EarlyGradients::send_rest() {
  for (size_t i = 0; i < subgroups_.size(); ++i)
    if (sent_[i].number == 0 && places_[i] == UpdatePlace::host) send_subgroup(i);
}

Tensor EarlyGradients::gradient(size_t i) const { return memory_->slice(first_[i], subgroups_[i].range.count); }

CopyTicket EarlyGradients::last() const {
  CopyTicket last;
  for (const CopyTicket& t : sent_)
    if (t.number > last.number) last = t;
  return last;
}

}  // namespace fp
