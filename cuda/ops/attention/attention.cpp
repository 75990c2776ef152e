#include "cuda/ops/attention/attention.h"

#include <cstdlib>
#include <set>
#include <sstream>

#include "base/error.h"

namespace fp::cuda {
namespace {

constexpr const char* kVariable = "FPTRAIN_ATTENTION";

std::set<std::string> names_in(const std::string& list) {
  std::set<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.insert(name);
  return names;
}

}  // namespace

Attention::Attention(Device& device) : device_(device) {
  if (auto cudnn = make_cudnn_attention(device)) kernels_.push_back(std::move(cudnn));
  kernels_.push_back(make_flash_attention());
  kernels_.push_back(make_simt_attention());
  if (const char* value = std::getenv(kVariable)) keep_only(value);
}

void Attention::keep_only(const std::string& list) {
  std::set<std::string> wanted = names_in(list);
  std::string legal;
  for (const auto& kernel : kernels_) legal += (legal.empty() ? "" : ", ") + kernel->name();
  std::erase_if(kernels_, [&](const auto& kernel) { return wanted.erase(kernel->name()) == 0; });
  if (!wanted.empty() || kernels_.empty())
    throw ConfigError(fmt::format("{}={}: names of implementations of attention, with commas between, out of: {}",
                                  kVariable, list, legal));
  only_ = list;
}

AttentionKernel& Attention::choose(const AttentionCall& call) const {
  for (const auto& kernel : kernels_)
    if (kernel->refuses(call).empty()) return *kernel;
  if (!only_.empty())
    throw ConfigError(
        fmt::format("{}={}: what this leaves cannot run such attention: {}", kVariable, only_, explain(call)));
  throw ConfigError(fmt::format("no attention on this device takes heads of {} in {}: {}; use run.device: cpu",
                                call.head_dim(), name_of(call.q.dtype), explain(call)));
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
