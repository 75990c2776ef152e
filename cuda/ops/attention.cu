// The attention ops: they check a call and pass it to the implementations in cuda/ops/attention.
#include "cuda/ops/cuda_ops.h"
#include "ops/checks.h"

namespace fp {

void CudaOps::attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) {
  checks::attention(o, lse, q, k, v, doc_start, sample_ids, spec);
  if (q.elements() > 0) attention_.forward({o, lse, q, k, v, doc_start, sample_ids, spec, {}, {}, {}, {}});
}

void CudaOps::attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o,
                                 const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                                 const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec& spec) {
  checks::attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, doc_start, sample_ids, spec);
  if (q.elements() > 0) attention_.backward({o, lse, q, k, v, doc_start, sample_ids, spec, d_o, dq, dk, dv});
}

}  // namespace fp
