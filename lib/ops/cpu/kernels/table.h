// The kernel functions that are compiled for every instruction set; table.cpp collects them into a Kernels table.
#pragma once

#include "ops/cpu/kernels.h"

namespace fp::cpu::FP_ISA {

void embedding(const EmbeddingArgs&);
void embedding_backward(const EmbeddingBackwardArgs&);
void norm(const NormArgs&);
void norm_backward_input(const NormBackwardArgs&);
void norm_backward_weight(const NormBackwardArgs&);
void bias_backward(const BiasBackwardArgs&);
void activation(const ActivationArgs&);
void activation_backward(const ActivationArgs&);
void add(const ElementwiseArgs&);
void copy_columns(const CopyColumnsArgs&);
void cast(const CastArgs&);
void dropout(const DropoutTensorArgs&);
void qkv(const QkvArgs&);
size_t attention_scratch(const AttentionArgs&);
void attention(const AttentionArgs&);
size_t attention_decode_scratch(const AttentionArgs&);
void attention_decode(const AttentionArgs&);
size_t attention_backward_scratch(const AttentionArgs&);
void attention_backward(const AttentionArgs&);
void softmax_stats(const LossArgs&);
void cross_entropy_backward(const LossArgs&);
void sum_squares(double* sums, const float* x, const Block* blocks, int64_t count);
void adamw(const AdamWArgs&);
void bit_sums(uint32_t* sums, const void* x, bool bf16, const Block* blocks, int64_t count);
void piece_sums(double* sums, const void* x, bool bf16, const Block* blocks, int64_t count);
size_t gemm_scratch(const GemmArgs&);
void gemm(const GemmArgs&);
void gemv(const GemmArgs&);

const Kernels& table();

}  // namespace fp::cpu::FP_ISA
