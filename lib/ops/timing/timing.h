// OpTimes: measures the calls of an Ops, op by op.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ops/ops.h"

namespace fp {

struct OpTime {
  int64_t calls = 0;
  double seconds = 0;
};

struct TimedCall {
  std::string_view op;
  std::vector<OpWork> works;  // several for a fused op
  double seconds = 0;
};

// The three matrix products of a linear layer with M tokens and a weight of shape (N, K).
enum class GemmKind : uint8_t { forward, backward_input, backward_weight };
using GemmCall = std::tuple<GemmKind, int64_t, int64_t, int64_t>;  // kind, M, N, K

struct Timings {
  std::map<std::string, OpTime> by_op;
  std::map<GemmCall, int64_t> gemms;  // number of calls of each
};

// Times the calls of `ops`, which must outlive it, for its lifetime. Each call is followed by synchronize(), so overlap
// is not measured.
class OpTimes final : public OpObserver {
 public:
  explicit OpTimes(Ops& ops) : ops_(ops) { ops_.observe(*this); }
  ~OpTimes() override { ops_.stop_observing(*this); }
  OpTimes(const OpTimes&) = delete;
  OpTimes& operator=(const OpTimes&) = delete;

  const Timings& timings() const { return timings_; }
  void reset() { timings_ = {}; }
  // Appends every later call to the log, in order. The log must outlive its use; null stops logging.
  void log_to(std::vector<TimedCall>* log) { log_ = log; }

  void starts(std::string_view op) override;
  void ended(std::string_view op, std::span<const OpWork> works) override;

 private:
  Ops& ops_;
  Timings timings_;
  std::vector<TimedCall>* log_ = nullptr;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace fp
