#include "exec/stage_links.h"

#include <algorithm>
#include <utility>

namespace fp {

bool sends_in_parts(const Mesh& mesh, const NodeMap& nodes, const Coordinate& at, int a, int b) {
  const auto node = [&](int pp, int tp) { return nodes.node_of(mesh.rank_of({pp, at.dp, at.sp, tp})); };
  for (int tp = 0; tp < mesh.tp(); ++tp)
    if (node(a, tp) != node(a, 0) || node(b, tp) != node(b, 0)) return false;
  return mesh.tp() > 1 && node(a, 0) != node(b, 0);
}

StageLinks::StageLinks(const Placement& placement, const Groups& groups, const LinkOptions& options)
    : placement_(placement), tensor_(groups.tensor), rank_(groups.at.pp), options_(options) {
  for (int pipe = 0; pipe < placement.pipes(); ++pipe)
    for (int stage = 0; stage + 1 < placement.stages(); ++stage) {
      const int a = placement.rank_of(pipe, stage), b = placement.rank_of(pipe, stage + 1);
      if (a == b || (a != rank_ && b != rank_)) continue;
      Link& between = links_[a == rank_ ? b : a];
      if (between.pair) continue;
      Coordinate low = groups.at, high = groups.at;
      low.pp = std::min(a, b);
      high.pp = std::max(a, b);
      between = {
          groups.comm_world->pair("stages", {groups.mesh.rank_of(low), groups.mesh.rank_of(high)}),
          options.same_on_tensor_ranks && sends_in_parts(groups.mesh, groups.comm_world->nodes(), groups.at, a, b)};
    }
}

const StageLinks::Link& StageLinks::link(int pipe, int stage) const {
  const auto it = links_.find(placement_.rank_of(pipe, stage));
  FP_CHECK(it != links_.end(), "no link to the rank of stage {}", stage);
  return it->second;
}

bool StageLinks::divides(const Link& l, const Tensor& whole) const {
  return l.in_parts && whole.elements() % tensor_->size() == 0;
}

Tensor StageLinks::part_of(const Tensor& whole) const {
  const int64_t n = whole.elements() / tensor_->size();
  return whole.reshaped({whole.elements()}).slice(tensor_->rank() * n, n);
}

void StageLinks::receive(Direction direction, const Action& a, ArenaTensor memory) {
  const Link& l = link(a.pipe, direction == Direction::forward ? a.stage - 1 : a.stage + 1);
  const bool in_parts = divides(l, memory);
  Request request = l.pair->start_recv(in_parts ? part_of(memory) : *memory, 1 - l.pair->rank());
  inbox_[{direction, a.pipe, a.stage, a.micro_batch}] = {OffloadedTensor(std::move(memory)), std::move(request),
                                                         in_parts};
}

OffloadedTensor StageLinks::take(Direction direction, const Action& a) {
  const auto it = inbox_.find({direction, a.pipe, a.stage, a.micro_batch});
  FP_CHECK(it != inbox_.end(), "nothing was received for stage {}, micro-batch {}", a.stage, a.micro_batch);
  it->second.request.wait();
  if (it->second.in_parts) {
    const Tensor& whole = it->second.tensor.on_device();
    tensor_->all_gather(whole.reshaped({whole.elements()}), part_of(whole));
  }
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
  if (!here || options_.parking == nullptr) return;
  waiting_.push_back(address);
  if (waiting_.size() > kNear) departures_.send(*options_.parking, message.tensor);
}

void StageLinks::send(Direction direction, const Action& a) {
  const int to = direction == Direction::forward ? a.stage + 1 : a.stage - 1;
  const auto it = outbox_.find({direction, a.pipe, to, a.micro_batch});
  FP_CHECK(it != outbox_.end(), "nothing to send from stage {}, micro-batch {}", a.stage, a.micro_batch);
  StageMessage message = std::move(it->second);
  outbox_.erase(it);
  std::deque<StageMessage>& sent = sent_[{direction, a.pipe, a.stage}];
  if (static_cast<int>(sent.size()) == options_.in_flight) {
    sent.front().request.wait();
    sent.pop_front();
  }
  const Link& l = link(a.pipe, to);
  const Tensor& whole = message.tensor.on_device();
  message.request = l.pair->start_send(divides(l, whole) ? part_of(whole) : whole, 1 - l.pair->rank());
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
