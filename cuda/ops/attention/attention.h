// Attention on a GPU: an ordered list of implementations. Each pass of a call runs on the first one that supports it.
//   cudnn   cuDNN's SDPA graph: the fastest; supports plain causal masks, windows and grouped heads. Its backward pass
//           runs in tiles where a whole one would need too much memory; forward passes of fewer than 128 queries, as of
//           prompts, are left to flash
//   flash   fptrain's tensor-core kernels, bf16: every mask and offset
//   simt    f32 without tensor cores (TF32 would not be f32)
// The environment variable FPTRAIN_ATTENTION=flash,simt keeps only these in the list, to measure and test them; a call
// that none of them supports is then a ConfigError.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/rules/attention_rules.h"
#include "cuda/runtime/device.h"
#include "ops/ops.h"

namespace fp {
class CudaOps;
}

namespace fp::cuda {

// The operands of Ops::attention, and those of attention_backward (with gradients).
struct AttentionCall {
  Tensor o, lse, q, k, v, doc_start, sample_ids;
  AttentionSpec spec;
  Tensor d_o = {}, dq = {}, dk = {}, dv = {};
  Write dq_write = Write::set, dkv_write = Write::set;
  int64_t batch() const { return q.shape[0]; }
  int64_t queries() const { return q.shape[1]; }
  int64_t heads() const { return q.shape[2]; }
  int64_t head_dim() const { return q.shape[3]; }
  int64_t keys() const { return k.shape[1]; }
  int64_t kv_heads() const { return k.shape[2]; }
};

class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  virtual std::string name() const = 0;
  // Returns an empty string when it can run this pass of the call, else the reason as a clause. The alignment of
  // addresses counts; null addresses are ignored. The backward pass takes o and lse of any implementation's forward
  // pass.
  virtual std::string refuses(const AttentionCall&, AttentionPass) const = 0;
  // Describes how it runs a pass, for people: its name, and how it divides the call.
  virtual std::string description(const AttentionCall&, AttentionPass) const { return name(); }
  // Returns the bytes of scratch that a pass needs.
  virtual size_t scratch_bytes(const AttentionCall&, AttentionPass) const = 0;
  // `scratch`: scratch_bytes() bytes of device memory, aligned to 256 bytes.
  virtual void forward(Device&, const AttentionCall&, std::byte* scratch) = 0;
  virtual void backward(Device&, const AttentionCall&, std::byte* scratch) = 0;
};

// Factories; each in its own file. make_cudnn_attention() returns null in builds without cuDNN: on the CPU under test.
std::unique_ptr<AttentionKernel> make_cudnn_attention(Device&);
// `shared_per_block`: bytes of shared memory that a block of the device may have.
std::unique_ptr<AttentionKernel> make_flash_attention(size_t shared_per_block);
std::unique_ptr<AttentionKernel> make_simt_attention(size_t shared_per_block);
// Returns why a kernel that needs `needed` bytes of shared memory in a block cannot run, as a clause; empty if it can.
std::string lack_of_shared_memory(size_t needed, size_t shared_per_block);
// Wraps an implementation such that it runs the backward pass of calls that are too large for it in tiles. A tile has
// as many tokens as keep the score gradient of one kv head below `score_gradient_limit` bytes (tile_tokens()).
std::unique_ptr<AttentionKernel> make_tiled_backward(std::unique_ptr<AttentionKernel>, CudaOps&,
                                                     size_t score_gradient_limit = kScoreGradientLimit);

class Attention {
 public:
  using Kernels = std::vector<std::unique_ptr<AttentionKernel>>;
  explicit Attention(CudaOps&);  // all implementations; ConfigError when FPTRAIN_ATTENTION names an unknown one
  Attention(Device&, Kernels);   // these, in this order
  void forward(const AttentionCall&);
  void backward(const AttentionCall&);
  size_t scratch_bytes(const AttentionCall&, AttentionPass) const;
  // Describes the implementation that runs such a call and says why those before it were passed over, as in "flash
  // (cudnn: attention dropout)"; when the passes differ: "forward: cudnn; backward: flash (cudnn: ...)".
  std::string explain(const AttentionCall&) const;

 private:
  void keep_only(const std::string& list);
  AttentionKernel& choose(const AttentionCall&, AttentionPass) const;
  std::byte* scratch(const AttentionKernel&, const AttentionCall&, AttentionPass) const;
  std::string explain(const AttentionCall&, AttentionPass) const;

  Device& device_;
  Kernels kernels_;
  std::string only_;  // FPTRAIN_ATTENTION
};

}  // namespace fp::cuda
