#include "ops/timing/timing.h"

#include <iterator>

#include "base/stopwatch.h"

namespace fp {
namespace {

// In the order of GemmKind.
constexpr std::string_view kProducts[] = {FP_PRODUCTS(FP_OP_NAME)};

}  // namespace

void OpTimes::starts(std::string_view) { start_ = std::chrono::steady_clock::now(); }

void OpTimes::ended(std::string_view op, std::span<const OpWork> works) {
  ops_.synchronize();
  const double seconds = seconds_since(start_);
  OpTime& t = timings_.by_op[std::string(op)];
  ++t.calls;
  t.seconds += seconds;
  for (const OpWork& w : works)
    for (size_t kind = 0; kind < std::size(kProducts); ++kind)
      if (w.op == kProducts[kind]) ++timings_.gemms[{static_cast<GemmKind>(kind), w.m, w.n, w.k}];
  if (log_ != nullptr) log_->push_back({op, {works.begin(), works.end()}, seconds});
}

}  // namespace fp
