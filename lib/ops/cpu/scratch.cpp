#include "ops/cpu/scratch.h"

#include <algorithm>
#include <new>

namespace fp::cpu {
namespace {

void free_aligned(std::byte* data) { ::operator delete (data, std::align_val_t{ScratchPool::kAlignment}); }

}  // namespace

ScratchPool::~ScratchPool() {
  for (const auto& [data, bytes] : free_) free_aligned(data);
}

ScratchPool::Buffer ScratchPool::acquire(size_t bytes) {
  bytes = std::max(bytes, kAlignment);
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      // The largest one is either big enough or the one to replace.
      const auto largest = std::ranges::max_element(free_, {}, [](const auto& buffer) { return buffer.second; });
      const auto [data, size] = *largest;
      free_.erase(largest);
      if (size >= bytes) return {*this, data, size};
      free_aligned(data);
    }
  }
  return {*this, static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})), bytes};
}

size_t ScratchPool::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& buffer : free_) total += buffer.second;
  return total;
}

void ScratchPool::release(std::byte* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.emplace_back(data, bytes);
}

}  // namespace fp::cpu
