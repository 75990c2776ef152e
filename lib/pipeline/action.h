// Action: one entry of a pipeline rank's list. A schedule consists of such lists, so every schedule can be printed,
// compared, verified, timed and run by the same code, whether it was generated or loaded from a file.
#pragma once

#include <cstdint>

namespace fp {

enum class ActionKind : uint8_t {
  forward,           // F: forward pass of a stage for a micro-batch; waits for its input
  backward_input,    // B: gradient of the stage's input; waits for the gradient of its output
  backward_weight,   // W: gradients of the stage's weights, from what B stored
  backward,          // D: B and W in one; the gradient of the input is sent only when all of D is done
  gather,            // all-gathers the stage's weights from the shards of the data ranks; they stay gathered ...
  free,              // ... until here
  send_forward,      // starts sending the output of F to the rank of the next stage; does not wait
  receive_forward,   // allocates the input of F and starts receiving it; F waits for it
  send_backward,     // starts sending the gradient of the input to the rank of the previous stage
  receive_backward,  // allocates the gradient of the output and starts receiving it, for B or D
  reduce,            // starts the sum over the data ranks of the stage's gradients since its last reduce
};
constexpr int kActionKinds = 11;

struct Action {
  ActionKind kind = ActionKind::forward;
  uint8_t pipe = 0;               // 0: down, 1: up (two-way schedules only)
  bool paired_with_next = false;  // DualPipe: this F and the D after it may run as one and overlap their communication
  int stage = 0;
  int micro_batch = -1;  // counted from 0 within the pipe; -1: none (gather, free, reduce)
  bool operator==(const Action&) const = default;
};

constexpr bool is_compute(ActionKind k) { return k <= ActionKind::backward; }
constexpr bool is_send(ActionKind k) { return k == ActionKind::send_forward || k == ActionKind::send_backward; }
constexpr bool is_receive(ActionKind k) {
  return k == ActionKind::receive_forward || k == ActionKind::receive_backward;
}
// Whether the action reads the stage's weights. W uses only what F and B stored, unless it recomputes (`w_does`).
constexpr bool needs_weights(ActionKind k, bool w_does) {
  return is_compute(k) && (w_does || k != ActionKind::backward_weight);
}
constexpr bool completes_gradient(ActionKind k) {
  return k == ActionKind::backward_weight || k == ActionKind::backward;
}

}  // namespace fp
