// Attention as cuDNN graphs: the patterns of matmuls, masks and softmax that its fused flash-attention engines
// recognise. The order of operations matters to them; it is that of NVIDIA/cudnn-frontend
// (node/scaled_dot_product_flash_attention.h).
#pragma once

#include <optional>

#include "cuda/rules/attention_rules.h"
#include "cuda/runtime/cudnn_graph.h"

namespace fp::cuda {

struct ForwardGraph {
  cudnn_api::Value q, k, v, o, lse, doc_start;
  cudnn_api::Plan plan;
};
struct BackwardGraph {
  cudnn_api::Value q, k, v, o, lse, d_o, dq, dk, dv, doc_start;
  // f32 [batch, heads, queries] in the caller's memory: sums of o * d_o, passed between the kernels of the plan.
  cudnn_api::Value row_sums;
  cudnn_api::Plan plan;
};

// Build the graphs for shapes and masks that cudnn_refusal() allows. They throw cudnn_api::Unsupported. The backward
// graph processes a slice of tensors of the whole shape.
ForwardGraph forward_graph(const AttentionShape&, const AttentionSpec&, bool has_documents, const cudnn_api::Target&);
BackwardGraph backward_graph(const AttentionShape& whole, const AttentionSlice&, const AttentionSpec&,
                             bool has_documents, const cudnn_api::Target&);

}  // namespace fp::cuda
