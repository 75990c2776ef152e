// The flash attention implementation: bf16, every mask and offset, head sizes up to 256.
#include "cuda/ops/attention/flash.h"

namespace fp::cuda {
namespace {

class FlashAttention final : public AttentionKernel {
 public:
  std::string name() const override { return "flash"; }
  std::string refuses(const AttentionCall& c, AttentionPass) const override {
    if (c.q.dtype != DType::bf16) return fmt::format("it computes in bf16, not {}", name_of(c.q.dtype));
    if (c.head_dim() > kLargestFlashHead)
      return fmt::format("head size {} is larger than {}", c.head_dim(), kLargestFlashHead);
    return {};
  }
  size_t scratch_bytes(const AttentionCall& c, AttentionPass pass) const override {
    return prepared_bytes(c, pass == AttentionPass::backward);
  }
  void forward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    flash_forward(prepare<bf16>(device, c, false, scratch), device.compute());
  }
  void backward(Device& device, const AttentionCall& c, std::byte* scratch) override {
    const auto a = prepare<bf16>(device, c, true, scratch);
    if (a.mask.keys > 0) flash_backward_keys(a, device.compute());
    flash_backward_queries(a, device.compute());
  }
};

}  // namespace

std::unique_ptr<AttentionKernel> make_flash_attention() { return std::make_unique<FlashAttention>(); }

}  // namespace fp::cuda
