#include "exec/preference.h"

#include <cmath>

namespace fp {
namespace {

// -log sigmoid(x), without overflow.
double softplus_of_minus(double x) { return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x)); }
double sigmoid(double x) { return x > 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }

}  // namespace

PairLoss dpo_loss(const PairScores& p, const DpoSpec& spec) {
  const double s = spec.label_smoothing, tokens = static_cast<double>(p.chosen_tokens);
  PairLoss r;
  r.margin = spec.beta * ((p.chosen - p.reference_chosen) - (p.rejected - p.reference_rejected));
  r.loss =
      (1 - s) * softplus_of_minus(r.margin) + s * softplus_of_minus(-r.margin) - spec.nll_weight * p.chosen / tokens;
  // d loss / d margin, negated: cross entropy is -logp.
  const double slope = spec.beta * ((1 - s) * sigmoid(-r.margin) - s * sigmoid(r.margin));
  r.d_chosen = slope + spec.nll_weight / tokens;
  r.d_rejected = -slope;
  return r;
}

}  // namespace fp
