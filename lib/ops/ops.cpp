#include "ops/ops.h"

#include "tensor/arena.h"

namespace fp {

std::shared_ptr<std::byte> Ops::allocate(size_t bytes, bool huge_pages) { return host_memory(bytes, huge_pages); }

}  // namespace fp
