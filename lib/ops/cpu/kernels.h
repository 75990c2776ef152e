// The kernels of one instruction set, as a table of functions over plain memory. A kernel splits its own work over the
// threads (base/parallel.h) in a way that no result depends on their number. `bf16` says which compute type the
// untyped addresses hold; shapes and meaning are those of ops.h, checked by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/isa.h"

namespace fp::cpu {

struct DropoutArgs {
  float p = 0, kept = 1;  // kept values are scaled by this
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
  void* dx = nullptr;                                       // backward of the input
  float *dgain = nullptr, *dbias = nullptr;                 // backward of the weights; dbias may be null
  const void *dy = nullptr, *x = nullptr, *gain = nullptr;  // gain: backward of the input only
  const float* stats = nullptr;
  float* partial = nullptr;  // backward of the weights: 2 * row_chunks(rows) * cols
};

struct BiasBackwardArgs {
  bool bf16 = false, add = false;
  int64_t rows = 0, cols = 0;
  float* db = nullptr;
  const void* dy = nullptr;
  float* partial = nullptr;  // row_chunks(rows) * cols
};

// Column sums are formed of partial sums over this many rows, added in order.
constexpr int64_t kRowChunk = 128;
constexpr int64_t row_chunks(int64_t rows) { return (rows + kRowChunk - 1) / kRowChunk; }

struct ActivationArgs {
  bool bf16 = false;
  int kind = 0;                // of Activation
  int64_t rows = 0, cols = 0;  // of y
  float limit = 0;
  void* y = nullptr;  // forward: y; backward: dx
  const void *x = nullptr, *dy = nullptr;
};

struct ElementwiseArgs {
  bool bf16 = false;
  int64_t count = 0;
  void* y = nullptr;
  const void *a = nullptr, *b = nullptr;
};

// The first elements of the columns, and from one row to the next.
struct CopyColumnsArgs {
  bool bf16 = false, add = false;
  int64_t rows = 0, count = 0, y_cols = 0, x_cols = 0;
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

// Rows of qkv <-> q, k, v. Column arithmetic of ops.h' HeadLayout as a first column and steps.
struct QkvArgs {
  bool bf16 = false, backward = false;
  int64_t rows = 0, columns = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t group_step = 0, head_step = 0;  // of q: from one kv head to the next, from one query head to the next within
  int64_t k_first = 0, v_first = 0, kv_step = 0;
  void *q = nullptr, *k = nullptr, *v = nullptr, *qkv = nullptr;
  const float *cos = nullptr, *sin = nullptr;  // null: no rotation
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
  std::byte* scratch = nullptr;  // attention_scratch() or attention_backward_scratch() bytes, 64-byte aligned
  int threads = 0;
};

constexpr int64_t kMaxDecodeHead = 256;

struct LossArgs {
  bool bf16 = false;
  int64_t rows = 0, cols = 0;
  int64_t live = 0;  // columns that are valid ids, from the first
  int64_t first_id = 0;
  float logit_scale = 0;
  void* logits = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* masked = nullptr;  // global ids
  int64_t masked_count = 0;
  float* stats = nullptr;  // statistics: [rows,3]
  const float* loss = nullptr;
  float scale = 0, z_loss = 0;  // backward
};

struct AdamWArgs {
  int64_t count = 0;
  float *param = nullptr, *m = nullptr, *v = nullptr;
  const float* grad = nullptr;
  void* weights = nullptr;  // bf16 copy, may be null
  float lr = 0, beta1 = 0, beta2 = 0, one_minus_beta1 = 0, one_minus_beta2 = 0, eps = 0, weight_decay = 0,
        m_correction = 0, v_correction = 0, grad_scale = 0;
};

// One block of a sum of squares: sums[i] = sum over x[offset, offset + count).
struct Block {
  int64_t offset = 0, count = 0;
};

// c[m,n] (+)= sum over k of a(m,k) b(n,k) + bias[n]. An operand is stored [rows,k] (k contiguous) or, transposed,
// [k,rows].
struct GemmArgs {
  bool bf16 = false;  // of a, b, bias
  bool a_transposed = false, b_transposed = false;
  bool c_bf16 = false, add = false;  // add: to an f32 c
  int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;  // bias may be null
  void* c = nullptr;
  std::byte* scratch = nullptr;  // gemm_scratch() bytes, 64-byte aligned
  int threads = 0;
};

struct Kernels {
  Isa isa;
  void (*embedding)(const EmbeddingArgs&);
  void (*embedding_backward)(const EmbeddingBackwardArgs&);
  void (*norm)(const NormArgs&);
  void (*norm_backward_input)(const NormBackwardArgs&);
  void (*norm_backward_weight)(const NormBackwardArgs&);
  void (*bias_backward)(const BiasBackwardArgs&);
  void (*activation)(const ActivationArgs&);
  void (*activation_backward)(const ActivationArgs&);
  void (*add)(const ElementwiseArgs&);
  void (*copy_columns)(const CopyColumnsArgs&);
  void (*cast)(const CastArgs&);
  void (*dropout)(const DropoutTensorArgs&);
  void (*qkv)(const QkvArgs&);
  size_t (*attention_scratch)(const AttentionArgs&);
  void (*attention)(const AttentionArgs&);
  // For a few queries without dropout, head size kMaxDecodeHead at most.
  size_t (*attention_decode_scratch)(const AttentionArgs&);
  void (*attention_decode)(const AttentionArgs&);
  size_t (*attention_backward_scratch)(const AttentionArgs&);
  void (*attention_backward)(const AttentionArgs&);
  void (*softmax_stats)(const LossArgs&);
  void (*cross_entropy_backward)(const LossArgs&);
  void (*sum_squares)(double* sums, const float* x, const Block* blocks, int64_t count);
  void (*adamw)(const AdamWArgs&);
  // Of each block its two sums; what bit_sums weighs counts from the block's first element.
  void (*bit_sums)(uint32_t* sums, const void* x, bool bf16, const Block* blocks, int64_t count);
  void (*piece_sums)(double* sums, const void* x, bool bf16, const Block* blocks, int64_t count);
  size_t (*gemm_scratch)(const GemmArgs&);
  void (*gemm)(const GemmArgs&);
  void (*gemv)(const GemmArgs&);  // for a few rows of a, nothing transposed nor added to, no scratch
};

const Kernels& kernels(Isa);

}  // namespace fp::cpu
