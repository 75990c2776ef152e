// Direct preference optimization (Rafailov et al. 2023): trains a model to assign chosen answers a higher probability
// than rejected ones, relative to a fixed reference model.
//   margin = (logp(chosen) - ref(chosen)) - (logp(rejected) - ref(rejected)), each a sum over the answer's tokens
//   loss   = -(1 - s) log sigmoid(beta margin) - s log sigmoid(-beta margin) + nll_weight * (-logp(chosen) / tokens)
// with label smoothing s, and the last term as in Llama 3's post-training.
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// Log-probabilities of one pair of answers, each summed over the answer's tokens.
struct PairScores {
  double chosen = 0, rejected = 0;                      // under the model
  double reference_chosen = 0, reference_rejected = 0;  // under the reference
  int64_t chosen_tokens = 1;
};

struct PairLoss {
  double loss = 0;
  double margin = 0;  // the reward margin: beta * margin of the file comment
  // Gradient of `loss` with respect to the sum of cross entropies (-logp) of each answer.
  double d_chosen = 0, d_rejected = 0;
};

PairLoss dpo_loss(const PairScores&, const DpoSpec&);

}  // namespace fp
