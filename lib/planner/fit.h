// Fits the rates of ops and links to measured times: least squares of relative errors, with non-negative coefficients.
#pragma once

#include <string>
#include <vector>

#include "config/cluster/cluster.h"
#include "ops/counting.h"

namespace fp {

// The work of one call (several ops if it is fused), and its time.
struct OpSample {
  std::vector<OpWork> works;
  double seconds = 0;  // mean over the calls
  int64_t calls = 1;   // number of equal calls
  double share = 1;    // fraction of the step's time in these calls: the weight of their error
};

struct FitError {
  std::string op, compute;
  int64_t samples = 0;
  double typical = 0;     // median of the absolute relative errors
  double of_seconds = 0;  // error of the total time of all calls: predicted / measured - 1
};

struct FittedRates {
  std::vector<ProductRates> products;  // of the compute types that were measured
  std::vector<OpRates> ops;            // by op and compute type; the last one, `other`, is for ops not measured
  std::vector<FitError> errors;        // of the products, then of the ops without `other`
};
// The FLOP/s of a data sheet, which no product exceeds; 0: not known.
struct PeakRates {
  double bf16 = 0, fp32 = 0;
};
FittedRates fit_rates(const std::vector<OpSample>&, const PeakRates& = {});

// The time of one communication of a group.
struct LinkSample {
  std::string between, kind;
  int64_t bytes = 0;  // of the operand
  int64_t sent = 0;   // by a rank
  int ranks = 2;
  double seconds = 0;
};
// Returns the rates for each pair of `between` and `kind` of the samples, in their order. The latency counts
// ceil(log2 ranks) times.
std::vector<LinkRates> fit_links(const std::vector<LinkSample>&);

// Returns the x >= lowest that minimises |rows x - right|^2. Exposed for tests.
std::vector<double> bounded_least_squares(const std::vector<std::vector<double>>& rows,
                                          const std::vector<double>& right, const std::vector<double>& lowest);

}  // namespace fp
