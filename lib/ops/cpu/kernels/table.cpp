#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {

const Kernels& table() {
  static constexpr Kernels kTable{.isa = Isa::FP_ISA,
                                  .embedding = embedding,
                                  .embedding_backward = embedding_backward,
                                  .norm = norm,
                                  .norm_backward_input = norm_backward_input,
                                  .norm_backward_weight = norm_backward_weight,
                                  .bias_backward = bias_backward,
                                  .activation = activation,
                                  .activation_backward = activation_backward,
                                  .add = add,
                                  .copy_columns = copy_columns,
                                  .cast = cast,
                                  .dropout = dropout,
                                  .qkv = qkv,
                                  .attention_scratch = attention_scratch,
                                  .attention = attention,
                                  .attention_decode_scratch = attention_decode_scratch,
                                  .attention_decode = attention_decode,
                                  .attention_backward_scratch = attention_backward_scratch,
                                  .attention_backward = attention_backward,
                                  .softmax_stats = softmax_stats,
                                  .cross_entropy_backward = cross_entropy_backward,
                                  .sum_squares = sum_squares,
                                  .adamw = adamw,
                                  .bit_sums = bit_sums,
                                  .piece_sums = piece_sums,
                                  .gemm_scratch = gemm_scratch,
                                  .gemm = gemm,
                                  .gemv = gemv};
  return kTable;
}

}  // namespace fp::cpu::FP_ISA
