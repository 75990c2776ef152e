// TimingOps: an Ops backend that forwards every call to another backend and measures it, op by op.
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

// The three matrix products of a linear layer with M tokens and a weight of shape (N, K).
enum class GemmKind : uint8_t { forward, backward_input, backward_weight };
using GemmCall = std::tuple<GemmKind, int64_t, int64_t, int64_t>;  // kind, M, N, K

struct Timings {
  std::map<std::string, OpTime> by_op;
  std::map<GemmCall, int64_t> gemms;  // number of calls of each
};

class TimingOps : public Ops {
 public:
  virtual const Timings& timings() const = 0;
  virtual void reset() = 0;
  // Appends every later call to the log, in order. The log must outlive its use; null stops logging.
  virtual void log_to(std::vector<TimedCall>*) = 0;
};

// Times the calls of `inner`, which must outlive the result. Each call is followed by synchronize(), so overlap is not
// measured.
std::unique_ptr<TimingOps> make_timing_ops(Ops& inner);

}  // namespace fp
