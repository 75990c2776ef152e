// The list of ops. Names in messages, profiles, cluster descriptions and counts come from here.
//
// FP_OPS(X) expands X(Call, name) for each op: calls::Call (lib/ops/calls) holds the operands of a call, Ops::name()
// runs it. The order is that of the documentation of cluster descriptions.
#pragma once

#include "base/optimizer_list.h"

// The matrix products of a linear layer, whose rates depend on the sizes.
#define FP_PRODUCTS(X)                          \
  X(Linear, linear)                             \
  X(LinearBackwardInput, linear_backward_input) \
  X(LinearBackwardWeight, linear_backward_weight)

// Ops that compute the same as several others, one after another; they are counted as those.
#define FP_FUSED_OPS(X)                                  \
  X(LinearGelu, linear_gelu)                             \
  X(LinearBackwardInputGelu, linear_backward_input_gelu) \
  X(LinearBackwardWeightBias, linear_backward_weight_bias)

#define FP_OTHER_OPS(X)                           \
  X(Attention, attention)                         \
  X(AttentionBackward, attention_backward)        \
  X(AttentionMerge, attention_merge)              \
  X(CopyIn, copy_in)                              \
  X(CopyOut, copy_out)                            \
  X(Copy, copy)                                   \
  X(Zero, zero)                                   \
  X(Cast, cast)                                   \
  X(Permute, permute)                             \
  X(CopyColumns, copy_columns)                    \
  X(RoundStochastically, round_stochastically)    \
  X(Quantize, quantize)                           \
  X(SumQuantized, sum_quantized)                  \
  X(RequantizeSums, requantize_sums)              \
  X(FindNonfinite, find_nonfinite)                \
  X(BitSums, bit_sums)                            \
  X(PieceSums, piece_sums)                        \
  X(BiasBackward, bias_backward)                  \
  X(Embedding, embedding)                         \
  X(EmbeddingBackward, embedding_backward)        \
  X(Norm, norm)                                   \
  X(NormBackwardInput, norm_backward_input)       \
  X(NormBackwardWeight, norm_backward_weight)     \
  X(Activation, activation)                       \
  X(ActivationBackward, activation_backward)      \
  X(Add, add)                                     \
  X(Accumulate, accumulate)                       \
  X(ScaledAdd, scaled_add)                        \
  X(Dropout, dropout)                             \
  X(SplitQkv, split_qkv)                          \
  X(SplitQkvBackward, split_qkv_backward)         \
  X(Rope, rope)                                   \
  X(SoftmaxStats, softmax_stats)                  \
  X(SoftmaxStatsMerge, softmax_stats_merge)       \
  X(CrossEntropy, cross_entropy)                  \
  X(CrossEntropyBackward, cross_entropy_backward) \
  X(SumSquares, sum_squares)                      \
  FP_OPTIMIZERS(X)

// Ops that the host's cores also run on host memory, beside the device's.
#define FP_HOST_OPS(X)                         \
  X(Zero, zero)                                \
  X(Cast, cast)                                \
  X(RoundStochastically, round_stochastically) \
  FP_OPTIMIZERS(X)

#define FP_UNFUSED_OPS(X) FP_PRODUCTS(X) FP_OTHER_OPS(X)
#define FP_OPS(X) FP_UNFUSED_OPS(X) FP_FUSED_OPS(X)

// FP_PRODUCTS(FP_OP_NAME) expands to "linear", "linear_backward_input", ... with a comma after each.
#define FP_OP_NAME(Call, name) #name,
