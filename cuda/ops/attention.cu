// The attention ops: they check a call and pass it to the implementations in cuda/ops/attention.
#include "cuda/ops/cuda_ops.h"

namespace fp {

void CudaOps::run(const calls::Attention& call) {
  if (call.q.elements() > 0)
    attention_.forward({call.o, call.lse, call.q, call.k, call.v, call.doc_start, call.sample_ids, call.spec});
}

void CudaOps::run(const calls::AttentionBackward& call) {
  if (call.q.elements() > 0)
    attention_.backward({call.o, call.lse, call.q, call.k, call.v, call.doc_start, call.sample_ids, call.spec, call.d_o,
                         call.dq, call.dk, call.dv, call.dq_write, call.dkv_write});
}

}  // namespace fp
