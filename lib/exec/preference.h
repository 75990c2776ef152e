// Direct preference optimisation (Rafailov et al. 2023): a model learns to find chosen answers likelier than rejected
// ones, relative to a fixed reference model.
//   margin = (logp(chosen) - ref(chosen)) - (logp(rejected) - ref(rejected)), sums over the answers' tokens
//   loss   = -(1 - s) log sigmoid(beta margin) - s log sigmoid(-beta margin) + nll_weight * (-logp(chosen) / tokens)
// with label smoothing s, and the last term as in Llama 3's post-training.
#pragma once

#include <cstdint>

#include "config/run_spec.h"

namespace fp {

// One pair, before and after. Log-probabilities are sums over an answer's tokens.
struct PairScores {
  double chosen = 0, rejected = 0;                      // under the model
  double reference_chosen = 0, reference_rejected = 0;  // under the reference
  int64_t chosen_tokens = 1;
};

struct PairLoss {
  double loss = 0;
  double margin = 0;  // times beta: the reward margin
  // Gradient of `loss` with respect to the sum of cross entropies (-logp) of each answer.
  double d_chosen = 0, d_rejected = 0;
};

PairLoss dpo_loss(const PairScores&, const DpoSpec&);

}  // namespace fp
