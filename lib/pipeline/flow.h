// Data flow of a step: the outputs of F, which the next stage consumes, and of B and D, which the previous stage
// consumes. Outputs are numbered channel by channel; an output's channel is (pipe, direction, producing stage).
#pragma once

#include "pipeline/schedule.h"

namespace fp {

class Flow {
 public:
  explicit Flow(const Schedule& s) : placement_(s.placement), of_pipe_(s.of_pipe()) {}

  int outputs() const { return 2 * placement_.pipes() * placement_.stages() * of_pipe_; }
  int channels() const { return 2 * placement_.pipes() * placement_.stages(); }
  int channel_of(int output) const { return output / of_pipe_; }
  int micro_batch_of(int output) const { return output % of_pipe_; }

  // Number of the output that an F, B or D produces or a send sends; -1: no stage consumes it.
  int output_of(const Action& a) const { return leaves(a) ? number(a, a.stage) : -1; }
  // Number of the output that an F, B or D consumes or a receive receives; -1: none.
  int input_of(const Action& a) const { return enters(a) ? number(a, is_backward(a) ? a.stage + 1 : a.stage - 1) : -1; }

  // The ranks that produce and consume an output.
  int producer(int output) const { return placement_.rank_of(pipe_of(output), stage_of(output)); }
  int consumer(int output) const {
    return placement_.rank_of(pipe_of(output), stage_of(output) + (backward_of(output) ? -1 : 1));
  }
  // Whether producer and consumer are different ranks, so that the output needs a message.
  bool crosses(int output) const { return output >= 0 && producer(output) != consumer(output); }

  // The actions that send and receive an output.
  Action send(int output) const {
    return action(backward_of(output) ? ActionKind::send_backward : ActionKind::send_forward, output, 0);
  }
  Action receive(int output) const {
    return backward_of(output) ? action(ActionKind::receive_backward, output, -1)
                               : action(ActionKind::receive_forward, output, 1);
  }

 private:
  static bool is_forward(const Action& a) {
    return a.kind == ActionKind::forward || a.kind == ActionKind::send_forward || a.kind == ActionKind::receive_forward;
  }
  static bool is_backward(const Action& a) {
    return a.kind == ActionKind::backward_input || a.kind == ActionKind::backward ||
           a.kind == ActionKind::send_backward || a.kind == ActionKind::receive_backward;
  }
  bool leaves(const Action& a) const {
    return !is_receive(a.kind) &&
           ((is_forward(a) && a.stage + 1 < placement_.stages()) || (is_backward(a) && a.stage > 0));
  }
  bool enters(const Action& a) const {
    return !is_send(a.kind) &&
           ((is_forward(a) && a.stage > 0) || (is_backward(a) && a.stage + 1 < placement_.stages()));
  }
  int number(const Action& a, int stage) const {
    return ((2 * a.pipe + (is_backward(a) ? 1 : 0)) * placement_.stages() + stage) * of_pipe_ + a.micro_batch;
  }
  int stage_of(int output) const { return channel_of(output) % placement_.stages(); }
  bool backward_of(int output) const { return channel_of(output) / placement_.stages() % 2 == 1; }
  int pipe_of(int output) const { return channel_of(output) / placement_.stages() / 2; }
  Action action(ActionKind kind, int output, int further) const {
    return {kind, static_cast<uint8_t>(pipe_of(output)), false, stage_of(output) + further, micro_batch_of(output)};
  }

  Placement placement_;
  int of_pipe_;
};

}  // namespace fp
