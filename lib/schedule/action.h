// Action: one entry of a pipeline rank's list. A schedule is such lists, so it can be printed, compared, checked, timed
// and run by one executor, whoever made it.
#pragma once

#include <cstdint>

namespace fp {

enum class ActionKind : uint8_t {
  forward,           // F: of a stage for a micro-batch; waits for its input
  backward_input,    // B: gradient of the stage's input; waits for the gradient of its output
  backward_weight,   // W: gradients of the stage's weights, from what B left
  backward,          // D: B and W in one; the gradient of the input is sent on when all of it is done
  gather,            // the stage's weights, of which each data rank keeps a shard, are whole from here on ...
  free,              // ... to here
  send_forward,      // output of F to the rank of the next stage: begins, does not wait
  receive_forward,   // input of F: makes room and begins, F waits
  send_backward,     // gradient of the input to the rank of the previous stage
  receive_backward,  // gradient of the output, for B or D
  reduce,            // all gradients of the stage since the last one are there: their sum over the data ranks begins
};
constexpr int kActionKinds = 11;

struct Action {
  ActionKind kind = ActionKind::forward;
  uint8_t pipe = 0;               // 0: down, 1: up (of bidirectional schedules)
  bool paired_with_next = false;  // DualPipe: F and D that may run as one, their communication overlapping
  int stage = 0;
  int micro_batch = -1;  // of the pipe, from 0; -1: of none (gather, free, reduce)
  bool operator==(const Action&) const = default;
};

constexpr bool is_compute(ActionKind k) { return k <= ActionKind::backward; }
constexpr bool is_send(ActionKind k) { return k == ActionKind::send_forward || k == ActionKind::send_backward; }
constexpr bool is_receive(ActionKind k) {
  return k == ActionKind::receive_forward || k == ActionKind::receive_backward;
}
// W works with what F and B left.
constexpr bool needs_weights(ActionKind k) { return is_compute(k) && k != ActionKind::backward_weight; }
constexpr bool completes_gradient(ActionKind k) {
  return k == ActionKind::backward_weight || k == ActionKind::backward;
}

}  // namespace fp
