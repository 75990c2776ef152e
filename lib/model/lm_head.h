// LmHead: final norm, projection onto the vocabulary and cross entropy. At most `chunk_tokens` rows of logits exist at
// a time, in the compute type.
#pragma once

#include <span>

#include "model/env.h"

namespace fp {

struct LossSpec {
  double scale = 1.0;  // derivative of the step's loss with respect to a token's loss: 1 / loss units of the step
  double z_loss = 0.0;
  int64_t chunk_tokens = 1024;                 // maximum number of rows of logits at a time
  std::span<const double> sample_scales = {};  // factor on `scale` for each sample of the micro-batch; empty: 1
};

class LmHead {
 public:
  explicit LmHead(const ModelEnv& env) : env_(&env) {}
  // Computes the losses of x [M',h]: `loss` f32 [M,2] receives (cross entropy, log-sum-exp) of each token, 0 where the
  // target is ignored.
  void forward(const Tensor& x, const MicroBatch&, const Tensor& loss, const LossSpec&) const;
  // The same; also adds to the gradients of the LM head's parameters and returns the gradient of x [M',h].
  ArenaTensor forward_backward(ArenaTensor x, const MicroBatch&, const Tensor& loss, const LossSpec&) const;
  // Writes the logits of x [M,h] as they enter the softmax to `out`, f32 [M,vocab] on the host: masked ids are
  // -infinity, padding is left out. Runs on one rank only.
  void logits(ArenaTensor x, std::span<float> out) const;

 private:
  Vocabulary vocabulary() const;
  // Returns the normalised x [M',h] as [M,h]; `stats` [M',2] receives the statistics.
  ArenaTensor final_norm(const Tensor& x, const Tensor& stats, const MicroBatch&) const;
  const ModelEnv* env_;
};

}  // namespace fp
