// Attention by cuDNN 9: fused flash-attention kernels, forward and backward, of which the results are the same bits in
// every run. Takes the passes that refuses() has nothing against; the rest is for fptrain's own kernel.
//
// Tensors are those of Ops::attention: q, o [B,T,H,d] and k, v [B,T,K,d] bf16, lse f32 [B,H,T] (natural logarithm),
// doc_start i32 [B,T] or empty. A graph is built once for each pass, shape and mask (about a second) and kept.
#pragma once

#include <memory>
#include <string>

#include "cuda/rules/attention_rules.h"
#include "cuda/runtime/device.h"
#include "tensor/tensor.h"

namespace fp::cuda {

class CudnnAttention {
 public:
  // Never throws because cuDNN is missing: that is what refuses() says then.
  explicit CudnnAttention(Device&);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Why cuDNN does not run this pass, as a clause for people; empty when it does. Asked before the first step: it
  // builds the pass's graph.
  std::string refuses(AttentionPass, const AttentionShape&, const AttentionSpec&, DType, bool has_documents) const;

  // Bytes of Device::scratch() that the pass takes; the caller reserves the largest. 0 for what is refused.
  size_t workspace_bytes(AttentionPass, const AttentionShape&, const AttentionSpec&, bool has_documents) const;

  // InternalError for what is refused. doc_start empty: one document.
  void forward(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& doc_start, const AttentionSpec&);
  void backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse, const Tensor& doc_start,
                const AttentionSpec&);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp::cuda
