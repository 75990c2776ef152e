// The two ends of a model: the stem (token and position embedding) and the head (final norm, projection onto the
// vocabulary, loss). The head never holds more than `chunk` rows of logits, and those in the compute type.
#pragma once

#include <span>

#include "model/env.h"

namespace fp {

class Stem {
 public:
  explicit Stem(const ModelEnv& env) : env_(&env) {}
  ArenaTensor forward(const MicroBatch&) const;  // -> [M',h]
  void backward_weight(ArenaTensor dx, const MicroBatch&) const;
  ArenaTensor embed(const Tensor& ids, const Tensor& positions) const;  // no dropout

 private:
  const ModelEnv* env_;
};

struct LossSpec {
  double scale = 1.0;  // gradient of the step's loss with respect to one token's: 1 / valid tokens of the step
  double z_loss = 0.0;
  int64_t chunk = 1024;                        // rows of logits that exist at one time
  std::span<const double> sample_scales = {};  // factor on `scale` of each sample of the micro-batch; empty: 1
};

class Head {
 public:
  explicit Head(const ModelEnv& env) : env_(&env) {}
  // x [M',h]; loss f32 [M,2] receives (cross entropy, log-sum-exp) of each token, 0 where the target is ignored.
  void forward(const Tensor& x, const MicroBatch&, const Tensor& loss, const LossSpec&) const;
  // The same, then the gradient of x; the gradients of the head's parameters are added on the way.
  ArenaTensor forward_backward(ArenaTensor x, const MicroBatch&, const Tensor& loss, const LossSpec&) const;
  // On one rank: logits of the rows x [M,h] as they enter the softmax, masked ids at -infinity, padding left out: f32
  // [M,vocab] on the host.
  void logits(ArenaTensor x, std::span<float> out) const;

 private:
  Vocabulary vocabulary() const;
  // x [M',h] -> normed [M,h]; its statistics [M',2].
  ArenaTensor final_norm(const Tensor& x, const Tensor& stats, const MicroBatch&) const;
  const ModelEnv* env_;
};

}  // namespace fp
