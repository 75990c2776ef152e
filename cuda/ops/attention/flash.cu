// The flash attention implementation: bf16, every mask and offset, head sizes up to 256.
#include <algorithm>

#include "cuda/ops/attention/flash.h"

namespace fp::cuda {
namespace {

size_t flash_backward_shared(int head_dim, bool drops) {
  return std::max(flash_keys_shared(head_dim, drops), flash_queries_shared(head_dim, drops));
}

class FlashAttention final : public AttentionKernel {
 public:
  explicit FlashAttention(size_t shared_per_block) : shared_per_block_(shared_per_block) {}
  std::string name() const override { return "flash"; }
  std::string refuses(const AttentionCall& c, AttentionPass pass) const override {
    if (c.q.dtype != DType::bf16) return fmt::format("it computes in bf16, not {}", name_of(c.q.dtype));
    if (c.head_dim() > kLargestFlashHead)
      return fmt::format("head size {} is larger than {}", c.head_dim(), kLargestFlashHead);
    const auto head_dim = static_cast<int>(c.head_dim());
    const bool drops = c.spec.dropout.p > 0;
    return lack_of_shared_memory(
        pass == AttentionPass::forward ? flash_forward_shared(head_dim, drops) : flash_backward_shared(head_dim, drops),
        shared_per_block_);
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

 private:
  size_t shared_per_block_;
};

}  // namespace

std::unique_ptr<AttentionKernel> make_flash_attention(size_t shared_per_block) {
  return std::make_unique<FlashAttention>(shared_per_block);
}

}  // namespace fp::cuda
