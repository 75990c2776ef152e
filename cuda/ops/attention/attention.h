// Attention on a GPU: an ordered list of implementations; the first that takes a pass of a call runs that pass.
//   cudnn   cuDNN's SDPA graph: the fastest; takes plain causal masks, windows and grouped heads, and sometimes the
//           forward pass alone
//   flash   our own tensor-core kernel, bf16: every mask and offset
//   simt    f32 without tensor cores (TF32 would not be f32)
// The environment variable FPTRAIN_ATTENTION=flash,simt leaves only these in the list, to measure and test them; a call
// that they all refuse is then a ConfigError.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/rules/attention_rules.h"
#include "cuda/runtime/device.h"
#include "ops/ops.h"

namespace fp::cuda {

// The operands of Ops::attention; backward also has gradients.
struct AttentionCall {
  Tensor o, lse, q, k, v, doc_start, sample_ids;
  AttentionSpec spec;
  Tensor d_o, dq, dk, dv;
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
  // Empty when it can run this pass of the call, addresses included (null ones allow anything), else why not, as a
  // clause for people. The backward pass takes o and lse of any implementation's forward pass.
  virtual std::string refuses(const AttentionCall&, AttentionPass) const = 0;
  // Bytes of Device::scratch that a pass takes.
  virtual size_t scratch_bytes(const AttentionCall&, AttentionPass) const = 0;
  virtual void forward(Device&, const AttentionCall&) = 0;
  virtual void backward(Device&, const AttentionCall&) = 0;
};

// Factories; each in its own file.
// Null where there is no cuDNN by construction: on the CPU under test.
std::unique_ptr<AttentionKernel> make_cudnn_attention(Device&);
std::unique_ptr<AttentionKernel> make_flash_attention();
std::unique_ptr<AttentionKernel> make_simt_attention();

class Attention {
 public:
  using Kernels = std::vector<std::unique_ptr<AttentionKernel>>;
  explicit Attention(Device&);  // all there are; ConfigError where FPTRAIN_ATTENTION names another
  Attention(Device&, Kernels);  // these, in this order
  void forward(const AttentionCall&);
  void backward(const AttentionCall&);
  size_t scratch_bytes(const AttentionCall&, AttentionPass) const;
  // "flash (cudnn: attention dropout)": what runs both passes of such a call, and why those before it were passed over.
  // "forward: cudnn; backward: flash (cudnn: ...)" where the passes differ.
  std::string explain(const AttentionCall&) const;

 private:
  void keep_only(const std::string& list);
  AttentionKernel& choose(const AttentionCall&, AttentionPass) const;
  std::string explain(const AttentionCall&, AttentionPass) const;

  Device& device_;
  Kernels kernels_;
  std::string only_;  // FPTRAIN_ATTENTION
};

}  // namespace fp::cuda
