#include "cuda/ops/attention/attention.h"

#include <cstdlib>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cuda/ops/cuda_ops.h"

namespace fp::cuda {
namespace {

constexpr const char* kVariable = "FPTRAIN_ATTENTION";

std::set<std::string> names_in(const std::string& list) {
  std::set<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.insert(name);
  return names;
}

const char* pass_name(AttentionPass pass) { return pass == AttentionPass::forward ? "forward" : "backward"; }

Attention::Kernels all_kernels(CudaOps& ops) {
  Attention::Kernels kernels;
  if (auto cudnn = make_cudnn_attention(ops.device())) kernels.push_back(make_tiled_backward(std::move(cudnn), ops));
  kernels.push_back(make_flash_attention(ops.device().facts().shared_per_block));
  kernels.push_back(make_simt_attention(ops.device().facts().shared_per_block));
  return kernels;
}

}  // namespace

std::string lack_of_shared_memory(size_t needed, size_t shared_per_block) {
  if (needed <= shared_per_block) return {};
  return fmt::format("its block needs {} bytes of shared memory, of which this GPU has {}", needed, shared_per_block);
}

Attention::Attention(CudaOps& ops) : Attention(ops.device(), all_kernels(ops)) {
  if (const char* value = std::getenv(kVariable)) keep_only(value);
}

Attention::Attention(Device& device, Kernels kernels) : device_(device), kernels_(std::move(kernels)) {}

void Attention::keep_only(const std::string& list) {
  std::set<std::string> wanted = names_in(list);
  std::string legal;
  for (const auto& kernel : kernels_) legal += (legal.empty() ? "" : ", ") + kernel->name();
  std::erase_if(kernels_, [&](const auto& kernel) { return wanted.erase(kernel->name()) == 0; });
  if (!wanted.empty() || kernels_.empty())
    throw ConfigError(fmt::format("{}={}: expected a comma-separated list of attention implementations out of: {}",
                                  kVariable, list, legal));
  only_ = list;
}

AttentionKernel& Attention::choose(const AttentionCall& call, AttentionPass pass) const {
  for (const auto& kernel : kernels_)
    if (kernel->refuses(call, pass).empty()) return *kernel;
  const std::string why = explain(call, pass);
  if (!only_.empty())
    throw ConfigError(fmt::format("{}={}: none of these can run the {} pass of this attention: {}", kVariable, only_,
                                  pass_name(pass), why));
  throw ConfigError(fmt::format("no attention on this device supports head size {} in {}: {}; use run.device: cpu",
                                call.head_dim(), name_of(call.q.dtype), why));
}

std::byte* Attention::scratch(const AttentionKernel& kernel, const AttentionCall& call, AttentionPass pass) const {
  const size_t bytes = kernel.scratch_bytes(call, pass);
  return bytes > 0 ? device_.scratch(bytes) : nullptr;
}

void Attention::forward(const AttentionCall& call) {
  AttentionKernel& kernel = choose(call, AttentionPass::forward);
  kernel.forward(device_, call, scratch(kernel, call, AttentionPass::forward));
}

void Attention::backward(const AttentionCall& call) {
  AttentionKernel& kernel = choose(call, AttentionPass::backward);
  kernel.backward(device_, call, scratch(kernel, call, AttentionPass::backward));
}

size_t Attention::scratch_bytes(const AttentionCall& call, AttentionPass pass) const {
  return choose(call, pass).scratch_bytes(call, pass);
}

std::string Attention::explain(const AttentionCall& call, AttentionPass pass) const {
  std::string passed_over, runs = "none";
  for (const auto& kernel : kernels_) {
    const std::string why = kernel->refuses(call, pass);
    if (why.empty()) {
      runs = kernel->description(call, pass);
      break;
    }
    passed_over += (passed_over.empty() ? "" : "; ") + kernel->name() + ": " + why;
  }
  return passed_over.empty() ? runs : runs + " (" + passed_over + ")";
}

std::string Attention::explain(const AttentionCall& call) const {
  const std::string forward = explain(call, AttentionPass::forward), backward = explain(call, AttentionPass::backward);
  return forward == backward ? forward : fmt::format("forward: {}; backward: {}", forward, backward);
}

}  // namespace fp::cuda
