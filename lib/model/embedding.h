// EmbeddingLayer: token embedding, learned position embedding and embedding dropout.
#pragma once

#include "model/env.h"

namespace fp {

class EmbeddingLayer {
 public:
  explicit EmbeddingLayer(const ModelEnv& env) : env_(&env) {}
  // Returns the embedded tokens [M',h].
  ArenaTensor forward(const MicroBatch&) const;
  // Adds to the parameters' gradients; dx [M',h] is the gradient of the output.
  void backward_weight(ArenaTensor dx, const MicroBatch&) const;
  // Returns the embeddings of ids, without dropout; for inference on one rank.
  ArenaTensor embed(const Tensor& ids, const Tensor& positions) const;

 private:
  const ModelEnv* env_;
};

}  // namespace fp
