// The CPU kernels of one instruction set, as a table of functions over plain memory. A kernel divides its own work over
// the threads (base/parallel.h) such that no result depends on their number. `bf16` is true when the untyped pointers
// hold bf16, false when they hold f32; shapes and meaning are those of ops.h and are checked by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/calls/update_rules.h"
#include "ops/cpu/isa.h"

namespace fp::cpu {

struct DropoutArgs {
  float p = 0, kept = 1;  // kept values are multiplied by `kept`
  uint32_t key[2] = {};
};

struct EmbeddingArgs {
  bool bf16 = false;
  int64_t rows = 0, cols = 0;
  void* y = nullptr;
  const int32_t* ids = nullptr;
  const void* table = nullptr;
  const int32_t* positions = nullptr;     // may be null
  const void* positions_table = nullptr;  // may be null
  float scale = 0;
};

struct EmbeddingBackwardArgs {
  bool bf16 = false;
  int64_t rows = 0, cols = 0;
  float* dtable = nullptr;
  const void* dy = nullptr;
  const int32_t* ids = nullptr;
  float scale = 0;
};

struct NormArgs {
  bool bf16 = false, layernorm = false;
  int64_t rows = 0, cols = 0;
  double eps = 0;
  void* y = nullptr;
  void* sum = nullptr;  // null: no residual
  float* stats = nullptr;
  const void *x = nullptr, *residual = nullptr, *gain = nullptr, *bias = nullptr;  // residual and bias may be null
};

struct NormBackwardArgs {
  bool bf16 = false, layernorm = false, add = false;
  int64_t rows = 0, cols = 0;
  void* dx = nullptr;                                       // input gradient
  float *dgain = nullptr, *dbias = nullptr;                 // weight gradients; dbias may be null
  const void *dy = nullptr, *x = nullptr, *gain = nullptr;  // gain: for the input gradient only
  const float* stats = nullptr;
  float* partial = nullptr;  // scratch for the weight gradients: 2 * row_chunks(rows) * cols floats
};

struct BiasBackwardArgs {
  bool bf16 = false, add = false;
  int64_t rows = 0, cols = 0;
  float* db = nullptr;
  const void* dy = nullptr;
  float* partial = nullptr;  // scratch: row_chunks(rows) * cols floats
};

// Column sums are partial sums over kRowChunk rows each, added in order.
constexpr int64_t kRowChunk = 128;
constexpr int64_t row_chunks(int64_t rows) { return (rows + kRowChunk - 1) / kRowChunk; }

struct ActivationArgs {
  bool bf16 = false;
  int kind = 0;                // an Activation
  int64_t rows = 0, cols = 0;  // shape of the op's output
  float limit = 0;
  void* y = nullptr;  // destination: y forward, dx backward
  const void *x = nullptr, *dy = nullptr;
};

// y = a + b; b may have another type than y and a.
struct AddArgs {
  bool bf16 = false, b_bf16 = false;
  int64_t count = 0;
  void* y = nullptr;
  const void *a = nullptr, *b = nullptr;
};

// y = a_scale * a + b_scale * b; y may have another type than a and b. b may be null.
struct ScaledAddArgs {
  bool y_bf16 = false, bf16 = false;
  int64_t count = 0;
  void* y = nullptr;
  const void *a = nullptr, *b = nullptr;
  float a_scale = 1, b_scale = 0;
};

// y and x point at the first column to write and to read; y_cols and x_cols are the row strides in elements.
struct CopyColumnsArgs {
  bool bf16 = false, add = false;
  int64_t rows = 0, count = 0, y_cols = 0, x_cols = 0;
  void* y = nullptr;
  const void* x = nullptr;
};

// y[cols,rows] = x[rows,cols] transposed.
struct TransposeArgs {
  bool bf16 = false;
  int64_t rows = 0, cols = 0;
  void* y = nullptr;
  const void* x = nullptr;
};

struct CastArgs {
  bool to_bf16 = false;
  int64_t count = 0;
  void* dst = nullptr;
  const void* src = nullptr;
};

struct DropoutTensorArgs {
  bool bf16 = false;
  int64_t samples = 0, tokens = 0, cols = 0, first_token = 0;
  void* y = nullptr;
  const void* x = nullptr;
  const int32_t* sample_ids = nullptr;
  DropoutArgs dropout;
};

// Splits rows of qkv into q, k, v, or joins them (backward). The columns of HeadLayout (ops.h) are given as first
// columns and steps.
struct QkvArgs {
  bool bf16 = false, backward = false;
  int64_t rows = 0, columns = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t group_step = 0, head_step = 0;  // columns of q from one kv head's group to the next, and between its heads
  int64_t k_first = 0, v_first = 0, kv_step = 0;
  void *q = nullptr, *k = nullptr, *v = nullptr, *qkv = nullptr;
  const float *cos = nullptr, *sin = nullptr;  // null: no rotation
  const int32_t* positions = nullptr;
};

// y = x, each [tokens, heads, head_dim], rotated; y may be x.
struct RopeArgs {
  bool bf16 = false, back = false;
  int64_t tokens = 0, heads = 0, head_dim = 0;
  void* y = nullptr;
  const void* x = nullptr;
  const float *cos = nullptr, *sin = nullptr;
  const int32_t* positions = nullptr;
};

struct AttentionArgs {
  bool bf16 = false;
  int64_t batch = 0, q_len = 0, k_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;
  int64_t window = 0, q_offset = 0, k_offset = 0;
  int64_t block = 0, local_blocks = 0, vertical_stride = 0, head_step = 0, first_head = 0;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;  // backward: read only
  float* lse = nullptr;
  const int32_t *doc_start = nullptr, *sample_ids = nullptr;  // may be null
  DropoutArgs dropout;
  const uint32_t* dropout_keys = nullptr;  // [heads][2]
  // backward
  const void* d_o = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  bool add_dq = false, add_dkv = false;
  std::byte* scratch = nullptr;  // attention_scratch() or attention_backward_scratch() bytes, 64-byte aligned
  int threads = 0;
};

constexpr int64_t kMaxDecodeHead = 256;

struct LossArgs {
  bool bf16 = false;
  int64_t rows = 0, cols = 0;
  int64_t live = 0;  // number of leading columns that are valid ids
  int64_t first_id = 0;
  float logit_scale = 0;
  void* logits = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* masked = nullptr;  // global ids
  int64_t masked_count = 0;
  float* stats = nullptr;  // [rows,3]
  const float* loss = nullptr;
  float scale = 0, z_loss = 0;  // backward
};

struct UpdateArgs {
  UpdateRule rule;
  const void* numbers = nullptr;  // the rule itself, such as rules::AdamW
  int64_t count = 0;
  float* param = nullptr;
  float* states[rules::kMaxStates] = {};
  const float* grad = nullptr;
  void* weights = nullptr;  // bf16 copy, may be null
  // May be null. For each block of `block` elements: piece_sums() of grad (2 numbers), and bit_sums() of param, states
  // and weights (2 words each, the last not written without weights).
  int64_t block = 0;
  double* gradient_sums = nullptr;
  uint32_t* bit_sums = nullptr;
};

// y = x - base, in f32; base may be null, and have another type than x.
struct LoadBlockArgs {
  bool bf16 = false, base_bf16 = false;
  int64_t count = 0;
  float* y = nullptr;
  const void *x = nullptr, *base = nullptr;
};

// y = factor * x, or y + factor * x.
struct StoreBlockArgs {
  bool bf16 = false, add = false;
  int64_t count = 0;
  float factor = 1;
  void* y = nullptr;
  const float* x = nullptr;
};

// A range of elements of an array that are summed together.
struct Block {
  int64_t offset = 0, count = 0;
};

// c[m,n] (+)= sum over k of a(m,k) b(n,k) + bias[n]. An operand is stored [rows,k] (k contiguous) or, transposed,
// [k,rows].
struct GemmArgs {
  bool bf16 = false;  // type of a, b and bias
  bool a_transposed = false, b_transposed = false;
  bool c_bf16 = false, add = false;  // add: only to an f32 c
  bool symmetric = false;  // b is a; no bias, no add: what is above c's diagonal is computed, and copied below
  int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;  // bias may be null
  void* c = nullptr;
  std::byte* scratch = nullptr;  // gemm_scratch() bytes, 64-byte aligned
  int threads = 0;
};

// The kernels: X(name, result, arguments).
//   attention_decode: attention forward for a few queries, without dropout, head size at most kMaxDecodeHead.
//   sum_squares, bit_sums, piece_sums: one, two, two sums for each block; the index that weights the second of bit_sums
//   counts from the block's first element.
//   gemv: for a few rows of a; no transposed operand, no add, no scratch.
//   multiply_in_registers: 12 x `repeats` vector instructions of gemm's kind, or 4 / 10 x `repeats` tile products, by
//   the calling thread; returns FLOPs. load_block, quantize_block, add_block (sums += codes * scale), store_block: the
//   steps of quantization on one block (ops/block_format.h), by the calling thread alone.
#define FP_CPU_KERNELS(X)                                                                            \
  X(embedding, void, (const EmbeddingArgs&))                                                         \
  X(embedding_backward, void, (const EmbeddingBackwardArgs&))                                        \
  X(norm, void, (const NormArgs&))                                                                   \
  X(norm_backward_input, void, (const NormBackwardArgs&))                                            \
  X(norm_backward_weight, void, (const NormBackwardArgs&))                                           \
  X(bias_backward, void, (const BiasBackwardArgs&))                                                  \
  X(activation, void, (const ActivationArgs&))                                                       \
  X(activation_backward, void, (const ActivationArgs&))                                              \
  X(add, void, (const AddArgs&))                                                                     \
  X(scaled_add, void, (const ScaledAddArgs&))                                                        \
  X(copy_columns, void, (const CopyColumnsArgs&))                                                    \
  X(transpose, void, (const TransposeArgs&))                                                         \
  X(cast, void, (const CastArgs&))                                                                   \
  X(dropout, void, (const DropoutTensorArgs&))                                                       \
  X(qkv, void, (const QkvArgs&))                                                                     \
  X(rope, void, (const RopeArgs&))                                                                   \
  X(attention_scratch, size_t, (const AttentionArgs&))                                               \
  X(attention, void, (const AttentionArgs&))                                                         \
  X(attention_decode_scratch, size_t, (const AttentionArgs&))                                        \
  X(attention_decode, void, (const AttentionArgs&))                                                  \
  X(attention_backward_scratch, size_t, (const AttentionArgs&))                                      \
  X(attention_backward, void, (const AttentionArgs&))                                                \
  X(softmax_stats, void, (const LossArgs&))                                                          \
  X(cross_entropy_backward, void, (const LossArgs&))                                                 \
  X(sum_squares, void, (double* sums, const float* x, const Block* blocks, int64_t count))           \
  X(update, void, (const UpdateArgs&))                                                               \
  X(bit_sums, void, (uint32_t * sums, const void* x, bool bf16, const Block* blocks, int64_t count)) \
  X(piece_sums, void, (double* sums, const void* x, bool bf16, const Block* blocks, int64_t count))  \
  X(gemm_scratch, size_t, (const GemmArgs&))                                                         \
  X(gemm, void, (const GemmArgs&))                                                                   \
  X(gemv, void, (const GemmArgs&))                                                                   \
  X(multiply_in_registers, double, (bool bf16, int64_t repeats))                                     \
  X(load_block, void, (const LoadBlockArgs&))                                                        \
  X(quantize_block, void, (float* scale, uint8_t* codes, const float* x, int64_t count, int bits))   \
  X(add_block, void, (float* sums, const uint8_t* codes, float scale, int64_t count, int bits))      \
  X(store_block, void, (const StoreBlockArgs&))

struct Kernels {
  Isa isa;
#define FP_KERNEL(name, result, arguments) result(*name) arguments;
  FP_CPU_KERNELS(FP_KERNEL)
#undef FP_KERNEL
};

// Returns the kernels compiled for an instruction set.
const Kernels& kernels(Isa);

}  // namespace fp::cpu
