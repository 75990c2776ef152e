#include "cuda/ops/attention/attention.h"

#include "base/error.h"

namespace fp::cuda {

Attention::Attention(Device& device) : device_(device) {
  if (auto cudnn = make_cudnn_attention(device)) kernels_.push_back(std::move(cudnn));
  kernels_.push_back(make_flash_attention());
  kernels_.push_back(make_simt_attention());
}

AttentionKernel& Attention::choose(const AttentionCall& call) const {
  for (const auto& kernel : kernels_)
    if (kernel->refuses(call).empty()) return *kernel;
  FP_CHECK(false, "attention: {}", explain(call));
}

void Attention::forward(const AttentionCall& call) { choose(call).forward(device_, call); }
void Attention::backward(const AttentionCall& call) { choose(call).backward(device_, call); }
size_t Attention::scratch_bytes(const AttentionCall& call, bool backward) const {
  return choose(call).scratch_bytes(call, backward);
}

std::string Attention::explain(const AttentionCall& call) const {
  std::string passed_over, runs = "none";
  for (const auto& kernel : kernels_) {
    const std::string why = kernel->refuses(call);
    if (why.empty()) {
      runs = kernel->name();
      break;
    }
    passed_over += (passed_over.empty() ? "" : "; ") + kernel->name() + ": " + why;
  }
  return passed_over.empty() ? runs : runs + " (" + passed_over + ")";
}

}  // namespace fp::cuda
