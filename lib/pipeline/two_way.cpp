// Chimera and BitPipe: two pipes in opposite directions fill each other's bubbles. A unit is p micro-batches, half of
// them in each pipe.
#include <algorithm>

#include "pipeline/orders.h"

namespace fp {
namespace {

struct Visit {
  int pipe, micro_batch, chunk;
};

// BitPipe: order in which the micro-batches of a unit visit a rank's chunks, forward (first = 0) or backward (1).
std::vector<Visit> unit_visits(int ranks, int rank, int unit, int first) {
  const int half = ranks / 2, own = rank < half ? 0 : 1, other = 1 - own, last = 1 - first;
  const int n = rank < half ? half - rank : rank - half + 1;
  std::vector<Visit> v;
  const auto visit = [&](int pipe, int chunk, int j) { v.push_back({pipe, unit * half + j, chunk}); };
  for (int i = 0; i < n; ++i) visit(own, first, i);
  for (int i = 0; i < half - n; ++i) visit(other, first, i), visit(own, first, n + i);
  for (int i = 0; i < n; ++i) visit(other, first, half - n + i), visit(other, last, i);
  for (int i = 0; i < half - n; ++i) visit(own, last, i), visit(other, last, n + i);
  for (int i = half - n; i < half; ++i) visit(own, last, i);
  return v;
}

}  // namespace

std::vector<Action> chimera_order(const ScheduleRequest& q, const Placement& placement, int rank) {
  struct Slot {
    int time;
    Visit visit;
    bool forward;
  };
  std::vector<Slot> slots;
  const int p = q.ranks, half = p / 2;
  for (int unit = 0; unit * p < q.micro_batches; ++unit)
    for (int pipe = 0; pipe < 2; ++pipe)
      for (int j = 0; j < half; ++j) {
        const int place = pipe == 0 ? rank : p - 1 - rank, start = 2 * p * unit + 2 * j;
        const Visit visit{pipe, unit * half + j, 0};
        slots.push_back({start + place, visit, true});
        slots.push_back({start + 2 * p - 1 - place, visit, false});
      }
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.time < b.time; });
  ListWriter list(placement, rank);
  for (const Slot& s : slots)
    if (s.forward)
      list.forward(s.visit.micro_batch, 0, s.visit.pipe);
    else
      list.backward(s.visit.micro_batch, 0, s.visit.pipe);
  return list.take();
}

std::vector<Action> bitpipe_order(const ScheduleRequest& q, const Placement& placement, int rank) {
  ListWriter list(placement, rank);
  const int p = q.ranks, units = q.micro_batches / p;
  std::vector<Visit> forward, backward;
  for (int unit = 0; unit < units; ++unit) {
    for (const Visit& v : unit_visits(p, rank, unit, 0)) forward.push_back(v);
    for (const Visit& v : unit_visits(p, rank, unit, 1)) backward.push_back(v);
  }
  size_t next_forward = 0, next_backward = 0;
  const auto forwards = [&](int count) {
    for (int i = 0; i < count; ++i, ++next_forward) {
      const Visit& v = forward[next_forward];
      list.forward(v.micro_batch, v.chunk, v.pipe);
    }
  };
  const auto backwards = [&](int count) {
    for (int i = 0; i < count; ++i, ++next_backward) {
      const Visit& v = backward[next_backward];
      list.backward(v.micro_batch, v.chunk, v.pipe);
    }
  };
  const auto pairs = [&](int count) {
    for (int i = 0; i < count; ++i) forwards(1), backwards(1);
  };
  const int warmup = p + p / 2 + std::min(rank, p - 1 - rank), paired = 2 * p - warmup;
  forwards(warmup);
  for (int unit = 0; unit + 1 < units; ++unit) {
    pairs(paired);
    backwards(warmup - paired + 1);
    pairs(paired - 1);
    forwards(warmup - paired + 1);
  }
  pairs(paired);
  backwards(2 * p - paired);
  return list.take();
}

}  // namespace fp
