#include "ops/cpu/cpu_ops.h"

#include <cstring>

#include "base/parallel.h"
#include "ops/backends.h"
#include "ops/checks.h"

namespace fp {
namespace {

constexpr int64_t kCopyGrain = int64_t{1} << 20;  // bytes

void copy_bytes(void* dst, const void* src, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

std::unique_ptr<Ops> make_cpu_ops() { return std::make_unique<CpuOps>(chosen_isa()); }

void CpuOps::copy_in(const Tensor& dst, const void* host) { copy_bytes(dst.data, host, dst.bytes()); }
void CpuOps::copy_out(void* host, const Tensor& src) { copy_bytes(host, src.data, src.bytes()); }

void CpuOps::copy(const Tensor& dst, const Tensor& src) {
  checks::copy(dst, src);
  copy_bytes(dst.data, src.data, src.bytes());
}

void CpuOps::zero(const Tensor& x) {
  parallel_for(static_cast<int64_t>(x.bytes()), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<std::byte*>(x.data) + begin, 0, static_cast<size_t>(end - begin));
  });
}

void CpuOps::cast(const Tensor& dst, const Tensor& src) {
  checks::cast(dst, src);
  if (dst.dtype == src.dtype) return copy_bytes(dst.data, src.data, src.bytes());
  k_.cast({.to_bf16 = dst.dtype == DType::bf16, .count = src.elements(), .dst = dst.data, .src = src.data});
}

}  // namespace fp
