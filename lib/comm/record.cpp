#include "comm/record.h"

namespace fp {

int64_t sent_between_nodes(const TrafficTable& traffic) {
  int64_t sum = 0;
  for (const auto& [key, t] : traffic) sum += t.between_nodes;
  return sum;
}

void CommRecord::count(const Entry& e, int64_t sent, int64_t between_nodes) {
  const std::lock_guard lock(mutex_);
  Traffic& t = traffic_[{e.group, e.kind}];
  ++t.calls;
  t.bytes += sent;
  t.between_nodes += between_nodes;
}

TrafficTable CommRecord::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

void CommRecord::reset_traffic() {
  const std::lock_guard lock(mutex_);
  traffic_.clear();
}

void CommRecord::enter_phase(std::string_view phase, int64_t step) {
  const std::lock_guard lock(mutex_);
  activity_.phase = phase;
  activity_.step = step;
  ++activity_.progress;
}

void CommRecord::tick() {
  const std::lock_guard lock(mutex_);
  ++activity_.progress;
}

void CommRecord::begin_wait(const Entry& e) {
  const std::lock_guard lock(mutex_);
  activity_.entry = e;
  activity_.waiting = true;
  ++activity_.progress;
}

void CommRecord::end_wait() {
  const std::lock_guard lock(mutex_);
  activity_.waiting = false;
  ++activity_.progress;
}

void CommRecord::set_lanes(std::vector<Lane> lanes) {
  const std::lock_guard lock(mutex_);
  if (activity_.lanes != lanes) ++activity_.progress;
  activity_.lanes = std::move(lanes);
}

void CommRecord::set_error(const std::string& error) {
  const std::lock_guard lock(mutex_);
  if (activity_.error.empty()) activity_.error = error;
}

CommRecord::Activity CommRecord::activity() const {
  const std::lock_guard lock(mutex_);
  return activity_;
}

}  // namespace fp
