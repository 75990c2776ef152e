// ZB-V: two chunks per rank in a V, so that all ranks need the same memory.
#include <algorithm>
#include <array>

#include "pipeline/orders.h"

namespace fp {

std::vector<Action> zb_v_order(const ScheduleRequest& q, const Placement& placement, int rank) {
  ListWriter list(placement, rank);
  const int p = q.ranks, m = q.micro_batches, n = std::max(m, 2 * p - 1);
  // Generates the order for n micro-batches and leaves out those that the step does not have.
  std::array<int, 2> forwards{}, inputs{}, weights{};
  const auto forward = [&](int c) {
    if (const int j = forwards[static_cast<size_t>(c)]++; j < m) list.forward(j, c);
  };
  const auto input = [&](int c) {
    if (const int j = inputs[static_cast<size_t>(c)]++; j < m) list.backward_input(j, c);
  };
  const auto weight = [&](int c) {
    if (const int j = weights[static_cast<size_t>(c)]++; j < m) list.backward_weight(j, c);
  };
  const auto times = [](int count, const auto& body) {
    for (int i = 0; i < count; ++i) body();
  };
  times(2 * (p - rank) - 1, [&] { forward(0); });
  times(rank, [&] { forward(1), forward(0); });
  times(p - rank, [&] { forward(1), input(1), weight(1); });
  while (forwards[0] < n || forwards[1] < n) {
    if (forwards[0] < n) forward(0);
    input(0), weight(0), forward(1), input(1), weight(1);
  }
  times(rank, [&] { input(0), input(1); });
  times(p - rank, [&] { input(0), weight(0); });
  for (const int c : {1, 0}) times(n - weights[static_cast<size_t>(c)], [&] { weight(c); });
  return list.take();
}

}  // namespace fp
