#include <catch2/catch.hpp>
#include <cmath>

#include "exec/executor.h"
#include "exec/preference.h"

using namespace fp;

namespace {

// Returns the central difference of the loss with respect to a cross entropy, which is minus a log-probability.
double slope(PairScores p, const DpoSpec& spec, double PairScores::*score) {
  const double h = 1e-5;
  PairScores up = p, down = p;
  up.*score -= h;
  down.*score += h;
  return (dpo_loss(up, spec).loss - dpo_loss(down, spec).loss) / (2 * h);
}

}  // namespace

TEST_CASE("the DPO loss of a pair is log 2 if model and reference assign equal probabilities", "[preference]") {
  const PairLoss r = dpo_loss({-10, -20, -10, -20, 5}, {});
  CHECK(r.loss == Approx(std::log(2.0)));
  CHECK(r.margin == 0.0);
  CHECK(r.d_chosen == Approx(0.05));
  CHECK(r.d_rejected == Approx(-0.05));
}

TEST_CASE("the DPO loss's gradient agrees with finite differences", "[preference]") {
  for (const double smoothing : {0.0, 0.2})
    for (const double nll : {0.0, 0.3})
      for (const double chosen : {-3.0, -40.0, -700.0}) {
        DpoSpec spec;
        spec.beta = 0.3;
        spec.label_smoothing = smoothing;
        spec.nll_weight = nll;
        const PairScores p{chosen, -35, -38, -33, 12};
        const PairLoss r = dpo_loss(p, spec);
        CHECK(r.d_chosen == Approx(slope(p, spec, &PairScores::chosen)).epsilon(1e-4).margin(1e-7));
        CHECK(r.d_rejected == Approx(slope(p, spec, &PairScores::rejected)).epsilon(1e-4).margin(1e-7));
      }
}

TEST_CASE("the DPO loss stays finite at any margin", "[preference]") {
  for (const double chosen : {-1e6, 0.0, 1e6}) {
    const PairLoss r = dpo_loss({chosen, -10, -10, -10, 1}, {});
    CHECK(std::isfinite(r.loss));
    CHECK(r.loss >= 0.0);
    CHECK(std::fabs(r.d_chosen) <= 0.1);
  }
}
