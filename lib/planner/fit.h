// Rates of ops and links from what was measured: least squares of relative errors, with coefficients that cannot be
// negative.
#pragma once

#include <string>
#include <vector>

#include "config/cluster.h"
#include "ops/counting.h"

namespace fp {

// What one call did, more than one op where it is a fused one, and how long it took.
struct OpSample {
  std::vector<OpWork> works;
  double seconds = 0;
  int64_t calls = 1;  // of which `seconds` is the mean
  double share = 1;   // of all calls in the time of their step: how much their error matters
};

struct FitError {
  std::string op, compute;
  int64_t samples = 0;
  double typical = 0;     // median of the relative errors
  double of_seconds = 0;  // of the time of all calls together: predicted / measured - 1
};

struct FittedRates {
  std::vector<ProductRates> products;  // of the compute types that were measured
  std::vector<OpRates> ops;            // by op and compute type, then `other`: all of them as one
  std::vector<FitError> errors;        // in the same order, without `other`
};
FittedRates fit_rates(const std::vector<OpSample>&);

// What ranks sent and how long it took them. `steps`: ceil(log2 ranks).
struct LinkSample {
  std::string between, kind;
  int64_t bytes = 0;  // of the operand
  int64_t sent = 0;   // by a rank
  int ranks = 2;
  double seconds = 0;
};
// A line for each `between` and `kind` of the samples, in their order.
std::vector<LinkRates> fit_links(const std::vector<LinkSample>&);

// The x >= lowest that minimises |rows x - right|^2. Exposed for tests.
std::vector<double> bounded_least_squares(const std::vector<std::vector<double>>& rows,
                                          const std::vector<double>& right, const std::vector<double>& lowest);

}  // namespace fp
