#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "every_kind.h"
#include "pipeline/memory.h"
#include "pipeline/text.h"

using namespace fp;
using namespace fp::test;

namespace {

// Computes the same bound independently, from the lifetime of each tensor.
class Lifetimes {
 public:
  Lifetimes(const Schedule& s, size_t r, int window, const std::vector<StageBytes>& bytes)
      : s_(s), p_(s.placement), list_(s.ranks[r]), rank_(static_cast<int>(r)), bytes_(bytes), level_(list_.size()) {
    for (size_t i = 0; i < list_.size(); ++i) add(i, window);
  }
  int64_t peak() const { return *std::max_element(level_.begin(), level_.end()); }

 private:
  size_t find(ActionKind kind, int stage, const Action& like, size_t otherwise) const {
    for (size_t i = 0; i < list_.size(); ++i) {
      const Action& a = list_[i];
      if (a.kind == kind && a.stage == stage && a.pipe == like.pipe && a.micro_batch == like.micro_batch) return i;
    }
    return otherwise;
  }
  size_t backward_of(const Action& a, int stage) const {
    return find(ActionKind::backward, stage, a, find(ActionKind::backward_input, stage, a, list_.size()));
  }
  void live(size_t from, size_t to, int64_t bytes) {
    for (size_t i = from; i <= std::min(to, list_.size() - 1); ++i) level_[i] += bytes;
  }
  int64_t boundary(int stage) const { return bytes_.at(static_cast<size_t>(stage)).boundary; }

  // An output lives until it is consumed on this rank, or until the send that waits for its own send.
  size_t end_of_output(const Action& a, ActionKind send, int consumer, size_t consumed, int window) const {
    if (p_.rank_of(a.pipe, consumer) == rank_) return consumed;
    int after = -1;
    for (size_t i = find(send, a.stage, a, 0); i < list_.size(); ++i)
      if (list_[i].kind == send && list_[i].stage == a.stage && list_[i].pipe == a.pipe && ++after == window)
        return i - 1;
    return list_.size();
  }

  void add(size_t i, int window) {
    const Action& a = list_[i];
    const StageBytes& b = bytes_[static_cast<size_t>(a.stage)];
    const bool backward = a.kind == ActionKind::backward || a.kind == ActionKind::backward_input;
    if (is_compute(a.kind)) level_[i] += b.working[static_cast<size_t>(a.kind)];
    if (a.kind == ActionKind::forward) {
      live(i, backward_of(a, a.stage), b.forward);
      if (a.stage + 1 < p_.stages())
        live(i, end_of_output(a, ActionKind::send_forward, a.stage + 1, find(a.kind, a.stage + 1, a, 0), window),
             boundary(a.stage + 1));
    }
    if (backward && a.stage > 0)
      live(i, end_of_output(a, ActionKind::send_backward, a.stage - 1, backward_of(a, a.stage - 1), window),
           boundary(a.stage));
    if (a.kind == ActionKind::backward_input) {
      live(i + 1, find(ActionKind::backward_weight, a.stage, a, 0), b.backward);
      level_[i] += std::max<int64_t>(0, b.backward - b.forward);
    }
    if (a.kind == ActionKind::receive_forward) live(i, find(ActionKind::forward, a.stage, a, 0), boundary(a.stage));
    if (a.kind == ActionKind::receive_backward) live(i, backward_of(a, a.stage), boundary(a.stage + 1));
  }

  const Schedule& s_;
  const Placement& p_;
  const std::vector<Action>& list_;
  int rank_;
  const std::vector<StageBytes>& bytes_;
  std::vector<int64_t> level_;
};

}  // namespace

TEST_CASE("peak memory of a pipeline of two ranks equals a hand calculation", "[pipeline]") {
  // Rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
  // Rank 1: 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
  const Schedule s = lower(generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 2, .micro_batches = 2}), {});
  const std::vector<StageBytes> bytes{{.forward = 100, .working = {10, 10, 10, 10}},
                                      {.forward = 1000, .working = {50, 50, 50, 50}, .boundary = 7}};
  // Before the end of 0B0: both activations, its gradient, and both outputs in flight.
  CHECK(peak_bytes(s, {.sends_in_flight = 2}, bytes)[0] == 2 * 100 + 10 + 3 * 7);
  CHECK(peak_bytes(s, {.sends_in_flight = 1}, bytes)[0] == 2 * 100 + 10 + 2 * 7);
  // While 1F1 runs: its activations, its input, and the gradient in flight.
  CHECK(peak_bytes(s, {.sends_in_flight = 2}, bytes)[1] == 1000 + 50 + 2 * 7);
}

TEST_CASE("live chunks equal those that the simulator counts", "[pipeline]") {
  for (const Schedule& s : every_kind(4, 8)) {
    CAPTURE(s.kind);
    const std::vector<StageBytes> kept(static_cast<size_t>(s.placement.stages()), {.forward = 1, .backward = 1});
    const std::vector<int> chunks = simulate(s, {}).peak_chunks;
    CHECK(peak_bytes(lower(s, {}), {}, kept) == std::vector<int64_t>(chunks.begin(), chunks.end()));
  }
}

TEST_CASE("the peak equals that computed from the lifetime of each tensor", "[pipeline]") {
  std::mt19937 random(3);
  const auto upto = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
  for (const Schedule& s : every_kind(4, 8))
    for (int window = 1; window <= 3; ++window) {
      LoweringOptions options{.sends_in_flight = window};
      options.costs.hop = 0.25;
      std::vector<StageBytes> bytes;
      for (int stage = 0; stage < s.placement.stages(); ++stage)
        bytes.push_back({upto(1000), upto(1000), upto(1000), upto(300)});
      const Schedule lowered = lower(s, options);
      const std::vector<int64_t> peaks = peak_bytes(lowered, options, bytes);
      for (size_t r = 0; r < peaks.size(); ++r) {
        CAPTURE(s.kind, window, r);
        CHECK(peaks[r] == Lifetimes(lowered, r, window, bytes).peak());
      }
    }
}

TEST_CASE("a forward-only schedule keeps no activations", "[pipeline]") {
  const Schedule s = lower(forward_only({.ranks = 2}, 8), {});
  const std::vector<StageBytes> bytes{{.forward = 100, .working = {10, 10, 10, 10}},
                                      {.forward = 1000, .working = {50, 50, 50, 50}, .boundary = 7}};
  // Rank 0: two outputs in flight and the third being computed. Rank 1: an input.
  CHECK(peak_bytes(s, {.sends_in_flight = 2}, bytes) == std::vector<int64_t>{100 + 10 + 3 * 7, 1000 + 50 + 7});
}
