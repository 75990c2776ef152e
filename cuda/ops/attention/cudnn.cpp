// The cuDNN implementation: the runtime's CudnnAttention behind the AttentionKernel interface.
#include "cuda/ops/attention/attention.h"
#include "cuda/rules/gemm_rules.h"
#include "cuda/runtime/cudnn_attention.h"

namespace fp::cuda {
namespace {

AttentionShape shape_of(const AttentionCall& c) {
  return {c.batch(), c.queries(), c.keys(), c.heads(), c.kv_heads(), c.head_dim()};
}

// Its plans are built for 16-byte aligned addresses and do not check them.
bool aligned(const AttentionCall& c) {
  for (const Tensor* t : {&c.o, &c.lse, &c.q, &c.k, &c.v, &c.doc_start, &c.d_o, &c.dq, &c.dk, &c.dv})
    if (alignment_of(t->data) < 16) return false;
  return true;
}

class Cudnn final : public AttentionKernel {
 public:
  explicit Cudnn(Device& device) : cudnn_(device) {}
  std::string name() const override { return "cudnn"; }
  std::string refuses(const AttentionCall& c, AttentionPass pass) const override {
    if (c.dq_write == Write::add || c.dkv_write == Write::add) return "gradients that are added to";
    if (!aligned(c)) return "operands at addresses that are not multiples of 16 bytes";
    return cudnn_.refuses(pass, shape_of(c), c.spec, c.q.dtype, static_cast<bool>(c.doc_start));
  }
  size_t scratch_bytes(const AttentionCall& c, AttentionPass pass) const override {
    return cudnn_.workspace_bytes(pass, shape_of(c), c.spec, static_cast<bool>(c.doc_start));
  }
  void forward(Device&, const AttentionCall& c, std::byte* scratch) override {
    cudnn_.forward(c.o, c.lse, c.q, c.k, c.v, c.doc_start, c.spec, scratch);
  }
  void backward(Device&, const AttentionCall& c, std::byte* scratch) override {
    cudnn_.backward(c.dq, c.dk, c.dv, c.d_o, c.q, c.k, c.v, c.o, c.lse, c.doc_start, c.spec, scratch);
  }

 private:
  CudnnAttention cudnn_;
};

}  // namespace

std::unique_ptr<AttentionKernel> make_cudnn_attention(Device& device) { return std::make_unique<Cudnn>(device); }

}  // namespace fp::cuda
