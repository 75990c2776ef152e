// One-way schedules with stages assigned to ranks round-robin. They differ in how far forward passes run ahead and in
// the groups in which micro-batches visit the chunks.
#include <algorithm>

#include "pipeline/orders.h"

namespace fp {
namespace {

struct OneWay {
  int unit;       // micro-batches that finish before the next ones begin
  int group;      // micro-batches that visit a chunk before they visit the next one
  int ahead;      // forward actions before the first pair of a forward and a backward action
  int delay = 0;  // split: number of backward actions before weight gradients begin
  bool split = false;
};

// The (micro-batch, chunk) pairs of a unit in order, group by group; `backward`: from the last chunk to the first.
std::vector<std::pair<int, int>> visits(const OneWay& o, int chunks, int first_micro_batch, bool backward) {
  std::vector<std::pair<int, int>> order;
  for (int at = 0; at < o.unit; at += o.group)
    for (int c = 0; c < chunks; ++c)
      for (int j = at; j < std::min(at + o.group, o.unit); ++j)
        order.emplace_back(first_micro_batch + j, backward ? chunks - 1 - c : c);
  return order;
}

std::vector<Action> write(const OneWay& o, const ScheduleRequest& q, const Placement& placement, int rank) {
  ListWriter list(placement, rank);
  for (int at = 0; at < q.micro_batches; at += o.unit) {
    const auto forward = visits(o, q.chunks, at, false), backward = visits(o, q.chunks, at, true);
    const int n = static_cast<int>(forward.size());
    auto next_forward = [&, k = 0]() mutable {
      if (k < n) list.forward(forward[static_cast<size_t>(k)].first, forward[static_cast<size_t>(k)].second);
      ++k;
    };
    for (int k = 0; k < o.ahead; ++k) next_forward();
    for (int i = 0; i < n; ++i) {
      next_forward();
      const auto [micro_batch, chunk] = backward[static_cast<size_t>(i)];
      if (!o.split) {
        list.backward(micro_batch, chunk);
        continue;
      }
      list.backward_input(micro_batch, chunk);
      if (i >= o.delay) list.backward_weight();
    }
    list.all_backward_weights();
  }
  return list.take();
}

}  // namespace

std::vector<Action> gpipe_order(const ScheduleRequest& q, const Placement& p, int rank) {
  return write({.unit = q.micro_batches, .group = q.micro_batches, .ahead = q.micro_batches}, q, p, rank);
}

std::vector<Action> breadth_first_order(const ScheduleRequest& q, const Placement& p, int rank) {
  return write({.unit = q.micro_batches, .group = q.micro_batches, .ahead = q.micro_batches * q.chunks}, q, p, rank);
}

std::vector<Action> one_f_one_b_order(const ScheduleRequest& q, const Placement& p, int rank) {
  return write({.unit = q.micro_batches, .group = q.micro_batches, .ahead = q.ranks - 1 - rank}, q, p, rank);
}

std::vector<Action> interleaved_order(const ScheduleRequest& q, const Placement& p, int rank) {
  const int ahead = 2 * (q.ranks - 1 - rank) + (q.chunks - 1) * q.group;
  return write({.unit = q.micro_batches, .group = q.group, .ahead = ahead}, q, p, rank);
}

std::vector<Action> interleaved_zb_order(const ScheduleRequest& q, const Placement& p, int rank) {
  const int ahead = q.ranks - 1 - rank + (q.chunks - 1) * q.group;
  return write({.unit = q.micro_batches, .group = q.group, .ahead = ahead, .delay = rank, .split = true}, q, p, rank);
}

std::vector<Action> zb_h1_order(const ScheduleRequest& q, const Placement& p, int rank) {
  return write(
      {.unit = q.micro_batches, .group = q.micro_batches, .ahead = q.ranks - 1 - rank, .delay = rank, .split = true}, q,
      p, rank);
}

std::vector<Action> zb_h2_order(const ScheduleRequest& q, const Placement& p, int rank) {
  const int ahead = 2 * (q.ranks - 1 - rank);
  // If forward actions run out sooner, weight gradients begin there.
  const int delay = std::min(2 * rank, std::max(0, q.micro_batches - 1 - ahead));
  return write({.unit = q.micro_batches, .group = q.micro_batches, .ahead = ahead, .delay = delay, .split = true}, q, p,
               rank);
}

std::vector<Action> zeropp_order(const ScheduleRequest& q, const Placement& p, int rank) {
  const int ahead = (q.chunks - 1) * q.unit_size + q.warmup * (q.ranks - 1 - rank);
  return write({.unit = q.unit_size, .group = q.unit_size, .ahead = ahead, .delay = q.warmup * rank, .split = true}, q,
               p, rank);
}

}  // namespace fp
