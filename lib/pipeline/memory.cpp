#include "pipeline/memory.h"

#include <algorithm>

#include "base/error.h"
#include "pipeline/flow.h"

namespace fp {
namespace {

class Memory {
 public:
  Memory(const Schedule& s, const LoweringOptions& options, const std::vector<StageBytes>& stages)
      : flow_(s),
        window_(options.sends_in_flight),
        stages_(&stages),
        trains_(trains(s)),
        in_flight_(static_cast<size_t>(flow_.channels())) {}

  int64_t peak_of(const std::vector<Action>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].paired_with_next) raise(while_running(list[i]) + while_running(list.at(i + 1)));
      perform(list[i]);
    }
    FP_CHECK(now_ == sending_, "{} bytes are left, {} of them being sent", now_, sending_);
    return peak_;
  }

 private:
  const StageBytes& of(const Action& a) const { return (*stages_)[static_cast<size_t>(a.stage)]; }
  void raise(int64_t more) { peak_ = std::max(peak_, now_ + more); }

  // Bytes of the action's input and output; 0: it has none.
  int64_t input(const Action& a) const { return flow_.input_of(a) < 0 ? 0 : boundary(a, a.kind, false); }
  int64_t output(const Action& a) const { return flow_.output_of(a) < 0 ? 0 : boundary(a, a.kind, true); }
  // A stage's output and the gradient of it are as large as the next stage's input.
  int64_t boundary(const Action& a, ActionKind kind, bool is_output) const {
    const bool forward =
        kind == ActionKind::forward || kind == ActionKind::send_forward || kind == ActionKind::receive_forward;
    return (*stages_)[static_cast<size_t>(a.stage) + (forward == is_output ? 1 : 0)].boundary;
  }

  // Bytes that an action needs on top of those in use when it begins.
  int64_t while_running(const Action& a) const {
    const StageBytes& b = of(a);
    int64_t kept = 0;
    if (a.kind == ActionKind::forward) kept = b.forward;
    if (a.kind == ActionKind::backward_input) kept = std::max<int64_t>(0, b.backward - b.forward);
    return kept + output(a) + b.working[static_cast<size_t>(a.kind)];
  }

  int64_t kept_after(const Action& a) const {
    const StageBytes& b = of(a);
    if (a.kind == ActionKind::forward) return trains_ ? b.forward : 0;
    if (a.kind == ActionKind::backward_input) return b.backward - b.forward;
    return a.kind == ActionKind::backward ? -b.forward : -b.backward;
  }

  void perform(const Action& a) {
    if (is_compute(a.kind)) {
      raise(while_running(a));
      now_ += kept_after(a) + output(a) - input(a);
    } else if (is_receive(a.kind)) {
      now_ += input(a);
      raise(0);
    } else if (is_send(a.kind)) {
      int& sends = in_flight_[static_cast<size_t>(flow_.channel_of(flow_.output_of(a)))];
      if (sends == window_)
        now_ -= output(a);
      else
        sending_ += output(a), ++sends;
    }
  }

  Flow flow_;
  int window_;
  const std::vector<StageBytes>* stages_;
  bool trains_;
  std::vector<int> in_flight_;  // by channel: sends in flight
  int64_t now_ = 0, sending_ = 0, peak_ = 0;
};

}  // namespace

std::vector<int64_t> peak_bytes(const Schedule& s, const LoweringOptions& options,
                                const std::vector<StageBytes>& stages) {
  FP_CHECK(stages.size() == static_cast<size_t>(s.placement.stages()), "bytes of {} stages for {}", stages.size(),
           s.placement.stages());
  std::vector<int64_t> peaks;
  for (const auto& list : s.ranks) peaks.push_back(Memory(s, options, stages).peak_of(list));
  return peaks;
}

std::vector<int64_t> peak_offloaded_bytes(const Schedule& s, const LoweringOptions& options,
                                          std::span<const StageBytes> stages) {
  std::vector<StageBytes> on_host;
  for (const StageBytes& b : stages) {
    on_host.push_back({.forward = b.offloaded});
    on_host.back().working.fill(b.offloaded_working);
  }
  return peak_bytes(s, options, on_host);
}

}  // namespace fp
