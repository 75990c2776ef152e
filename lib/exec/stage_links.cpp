#include "exec/stage_links.h"

#include <algorithm>
#include <utility>

namespace fp {

StageLinks::StageLinks(const Placement& placement, const Groups& groups, int in_flight, const ModelEnv* parking)
    : placement_(placement), rank_(groups.at.pp), in_flight_(in_flight), parking_(parking) {
  for (int pipe = 0; pipe < placement.pipes(); ++pipe)
    for (int stage = 0; stage + 1 < placement.stages(); ++stage) {
      const int a = placement.rank_of(pipe, stage), b = placement.rank_of(pipe, stage + 1);
      if (a == b || (a != rank_ && b != rank_)) continue;
      Coordinate low = groups.at, high = groups.at;
      low.pp = std::min(a, b);
      high.pp = std::max(a, b);
      groups_[{pipe, stage}] = groups.comm_world->pair("stages", {groups.mesh.rank_of(low), groups.mesh.rank_of(high)});
    }
}

Group& StageLinks::group(Direction direction, int pipe, int stage) const {
  const auto it = groups_.find({pipe, direction == Direction::forward ? stage - 1 : stage});
  FP_CHECK(it != groups_.end(), "no link between ranks to stage {}", stage);
  return *it->second;
}

void StageLinks::receive(Direction direction, const Action& a, ArenaTensor memory) {
  Group& g = group(direction, a.pipe, a.stage);
  Request request = g.start_recv(memory, 1 - g.rank());
  inbox_[{direction, a.pipe, a.stage, a.micro_batch}] = {OffloadedTensor(std::move(memory)), std::move(request)};
}

OffloadedTensor StageLinks::take(Direction direction, const Action& a) {
  const auto it = inbox_.find({direction, a.pipe, a.stage, a.micro_batch});
  FP_CHECK(it != inbox_.end(), "nothing was received for stage {}, micro-batch {}", a.stage, a.micro_batch);
  it->second.request.wait();
  departures_.forget(it->second.tensor);
  OffloadedTensor x = std::move(it->second.tensor);
  std::erase(waiting_, it->first);
  inbox_.erase(it);
  if (!waiting_.empty()) inbox_.at(waiting_.front()).tensor.fetch();
  return x;
}

void StageLinks::give(Direction direction, const Action& a, ArenaTensor x) {
  const int to = direction == Direction::forward ? a.stage + 1 : a.stage - 1;
  const bool here = placement_.rank_of(a.pipe, to) == rank_;
  const Address address{direction, a.pipe, to, a.micro_batch};
  StageMessage& message = (here ? inbox_ : outbox_)[address] = {OffloadedTensor(std::move(x)), {}};
  if (!here || parking_ == nullptr) return;
  waiting_.push_back(address);
  if (waiting_.size() > kNear) departures_.send(*parking_, message.tensor);
}

void StageLinks::send(Direction direction, const Action& a) {
  const int to = direction == Direction::forward ? a.stage + 1 : a.stage - 1;
  const auto it = outbox_.find({direction, a.pipe, to, a.micro_batch});
  FP_CHECK(it != outbox_.end(), "nothing to send from stage {}, micro-batch {}", a.stage, a.micro_batch);
  StageMessage message = std::move(it->second);
  outbox_.erase(it);
  std::deque<StageMessage>& sent = sent_[{direction, a.pipe, a.stage}];
  if (static_cast<int>(sent.size()) == in_flight_) {
    sent.front().request.wait();
    sent.pop_front();
  }
  Group& g = group(direction, a.pipe, to);
  message.request = g.start_send(message.tensor.on_device(), 1 - g.rank());
  sent.push_back(std::move(message));
}

void StageLinks::finish() {
  for (auto& [direction, sent] : sent_)
    while (!sent.empty()) {
      sent.front().request.wait();
      sent.pop_front();
    }
  FP_CHECK(inbox_.empty() && outbox_.empty(), "{} received and {} unsent messages are left", inbox_.size(),
           outbox_.size());
}

}  // namespace fp
