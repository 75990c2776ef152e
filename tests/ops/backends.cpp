#include "backends.h"

#include <cstdlib>

#include "ops/backends.h"

namespace fp::test {

std::shared_ptr<void> allocate_on_host(size_t bytes) {
  const size_t rounded = (bytes + 255) / 256 * 256;
  return {std::aligned_alloc(256, rounded), std::free};
}

const Backend& oracle() {
  static const Backend ref{"ref", make_ref_ops(), allocate_on_host};
  return ref;
}

}  // namespace fp::test
