// DualPipe and DualPipeV pair most forward actions with a backward one, so that the communication of one (of experts)
// overlaps the computation of the other. DualPipe's two phases are its two pipes, DualPipeV's are its two chunks.
#include <algorithm>
#include <array>

#include "pipeline/orders.h"

namespace fp {
namespace {

// Writes a rank's actions in its two phases (pipes or chunks).
class PhaseWriter {
 public:
  // `first`: the pipe whose micro-batches reach the rank first. `chunks`: phases are chunks of one pipe.
  PhaseWriter(const Placement& placement, int rank, int first, bool chunks)
      : list_(placement, rank), first_(first), chunks_(chunks) {}

  void forward(int phase) { list_.forward(forwards_[index(phase)]++, chunk(phase), pipe(phase)); }
  void backward(int phase) { list_.backward(backwards_[index(phase)]++, chunk(phase), pipe(phase)); }
  void input(int phase) { list_.backward_input(backwards_[index(phase)]++, chunk(phase), pipe(phase)); }
  void weight() { list_.backward_weight(); }
  // A forward action of one phase, with a backward one of the other.
  void pair(int phase) {
    forward(phase);
    list_.pair_with_next();
    backward(1 - phase);
  }
  std::vector<Action> take() { return list_.take(); }

 private:
  static size_t index(int phase) { return static_cast<size_t>(phase); }
  int chunk(int phase) const { return chunks_ ? phase : 0; }
  int pipe(int phase) const { return chunks_ ? 0 : phase ^ first_; }

  ListWriter list_;
  int first_;
  bool chunks_;
  std::array<int, 2> forwards_{}, backwards_{};
};

// `depth`: 0 on the rank where a pipe begins, `length` - 1 where the two phases meet.
std::vector<Action> write(PhaseWriter list, int length, int depth, int micro_batches) {
  const int lead = length - 1 - depth;
  for (int i = 0; i < 2 * lead; ++i) list.forward(0);
  for (int i = 0; i <= depth; ++i) list.forward(0), list.forward(1);
  for (int i = 0; i < lead; ++i) list.input(1), list.weight(), list.forward(1);
  for (int i = 0; i < micro_batches - 2 * length + depth + 1; ++i) {
    if (i == 0 && lead == 0)
      list.forward(0), list.backward(1);  // no pair: both are of the same micro-batch, as the phases meet here
    else
      list.pair(0);
    list.pair(1);
  }
  for (int i = 0; i < lead; ++i) list.backward(1), list.pair(1);
  // From the middle on weight gradients are deferred, to fill the bubbles at the end.
  const int middle = depth + 1;
  for (int i = 0; i < 2 * (depth + 1); ++i) {
    const int phase = 1 - i % 2;
    if (i < middle)
      list.backward(phase);
    else
      list.input(phase);
  }
  for (int i = 0; i < lead; ++i) list.weight(), list.input(0);
  for (int i = 0; i <= depth; ++i) list.weight();
  return list.take();
}

}  // namespace

std::vector<Action> dualpipe_order(const ScheduleRequest& q, const Placement& placement, int rank) {
  const int half = q.ranks / 2, depth = std::min(rank, q.ranks - 1 - rank);
  return write(PhaseWriter(placement, rank, rank < half ? 0 : 1, false), half, depth, q.micro_batches / 2);
}

std::vector<Action> dualpipev_order(const ScheduleRequest& q, const Placement& placement, int rank) {
  return write(PhaseWriter(placement, rank, 0, true), q.ranks, rank, q.micro_batches);
}

}  // namespace fp
