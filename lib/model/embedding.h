// Embedding: token embedding, learned position embedding and embedding dropout.
#pragma once

#include "model/env.h"

namespace fp {

class Embedding {
 public:
  explicit Embedding(const ModelEnv& env) : env_(&env) {}
  // Returns the embedded tokens [M',h].
  ArenaTensor forward(const MicroBatch&) const;
  // Adds to the parameters' gradients; dx [M',h] is the gradient of the output.
  void backward_weight(ArenaTensor dx, const MicroBatch&) const;
  // Returns the embeddings of tokens (i32 ids), without dropout; for inference on one rank.
  ArenaTensor embed(const Tensor& tokens, const Tensor& positions) const;

 private:
  const ModelEnv* env_;
};

}  // namespace fp
