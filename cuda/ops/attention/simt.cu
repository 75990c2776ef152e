// The plain f32 attention implementation: every mask and offset, head sizes up to 256, no TF32.
#include "cuda/ops/attention/simt.h"

namespace fp::cuda {
namespace {

class SimtAttention final : public AttentionKernel {
 public:
  explicit SimtAttention(size_t shared_per_block) : shared_per_block_(shared_per_block) {}
  std::string name() const override { return "simt"; }
  std::string refuses(const AttentionCall& c, AttentionPass pass) const override {
    if (c.q.dtype != DType::f32) return fmt::format("it computes in fp32, not {}", name_of(c.q.dtype));
    if (c.head_dim() > kLargestSimtHead)
      return fmt::format("head size {} is larger than {}", c.head_dim(), kLargestSimtHead);
    const auto head_dim = static_cast<int>(c.head_dim());
    const bool drops = c.spec.dropout.p > 0;
    return lack_of_shared_memory(
        pass == AttentionPass::forward ? simt_forward_shared(head_dim, drops) : simt_backward_shared(head_dim, drops),
        shared_per_block_);
  }
  size_t scratch_bytes(const AttentionCall& c, AttentionPass pass) const override {
    return prepared_bytes(c, pass == AttentionPass::backward);
  }
  void forward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    simt_forward(prepare<float>(device, c, false, scratch), device.compute());
  }
  void backward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    simt_backward(prepare<float>(device, c, true, scratch), device.compute());
  }

 private:
  size_t shared_per_block_;
};

}  // namespace

std::unique_ptr<AttentionKernel> make_simt_attention(size_t shared_per_block) {
  return std::make_unique<SimtAttention>(shared_per_block);
}

}  // namespace fp::cuda
