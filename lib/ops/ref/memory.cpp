#include <cstring>

#include "ops/backends.h"
#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

void RefOps::copy_in(const Tensor& dst, const void* host) { std::memcpy(dst.data, host, dst.bytes()); }

void RefOps::copy_out(void* host, const Tensor& src) { std::memcpy(host, src.data, src.bytes()); }

void RefOps::copy(const Tensor& dst, const Tensor& src) {
  checks::copy(dst, src);
  std::memmove(dst.data, src.data, src.bytes());
}

void RefOps::zero(const Tensor& x) { std::memset(x.data, 0, x.bytes()); }

void RefOps::cast(const Tensor& dst, const Tensor& src) {
  checks::cast(dst, src);
  ref::store(dst, ref::load(src));
}

}  // namespace fp
