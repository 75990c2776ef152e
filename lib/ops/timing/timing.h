// Timing Ops: passes every call on to another backend and measures it. Where a step's time goes, op by op.
#pragma once

#include <map>
#include <memory>
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
  double seconds = 0;
};

// One of the three matrix products of a linear layer, M tokens, (N, K) weight.
enum class GemmKind : uint8_t { forward, backward_input, backward_weight };
using GemmCall = std::tuple<GemmKind, int64_t, int64_t, int64_t>;  // kind, M, N, K

struct Timings {
  std::map<std::string, OpTime> by_op;
  std::map<GemmCall, int64_t> gemms;  // how often each was called
};

class TimingOps : public Ops {
 public:
  virtual const Timings& timings() const = 0;
  virtual void reset() = 0;
  // Every call from now on, in order; null: nowhere. Must outlive its use.
  virtual void log_to(std::vector<TimedCall>*) = 0;
};

// `inner` must outlive the result. Each call is followed by synchronize(): overlap is not measured.
std::unique_ptr<TimingOps> make_timing_ops(Ops& inner);

}  // namespace fp
