// Attention by cuDNN 9: fused flash-attention kernels, forward and backward, whose results are the same bits in every
// run. It supports the passes for which refuses() returns nothing; the others run on fptrain's own kernels.
//
// Tensors are those of Ops::attention: q, o [B,T,H,d] and k, v [B,T,K,d] bf16, lse f32 [B,H,T] (natural logarithm),
// doc_start i32 [B,T] or empty. A graph is built once for each pass, shape and mask (about a second) and cached.
#pragma once

#include <memory>
#include <string>

#include "cuda/rules/attention_rules.h"
#include "cuda/runtime/device.h"
#include "tensor/tensor.h"

namespace fp::cuda {

class CudnnAttention {
 public:
  // Does not throw when cuDNN is missing; refuses() then returns that reason. A smaller limit makes smaller slices, for
  // tests: cudnn_refusal() is about kScoreGradientLimit.
  explicit CudnnAttention(Device&, size_t score_gradient_limit = kScoreGradientLimit);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Returns why cuDNN does not run this pass, as a clause; empty when it does. Builds the graph of the pass, so it is
  // called before the first step.
  std::string refuses(AttentionPass, const AttentionShape&, const AttentionSpec&, DType, bool has_documents) const;

  // Returns the bytes of scratch that the pass needs. 0 for a refused pass.
  size_t workspace_bytes(AttentionPass, const AttentionShape&, const AttentionSpec&, bool has_documents) const;

  // Run a pass. They throw InternalError for a refused one. doc_start empty: one document. `scratch`: workspace_bytes()
  // bytes, aligned to 256.
  void forward(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& doc_start, const AttentionSpec&, std::byte* scratch);
  void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                const AttentionSpec&, std::byte* scratch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
