#include "backends.h"

#include <algorithm>
#include <cstdlib>

#include "ops/backends.h"

namespace fp::test {

std::shared_ptr<void> allocate_on_host(size_t bytes) {
  const size_t rounded = (bytes + 255) / 256 * 256;
  return {std::aligned_alloc(256, rounded), std::free};
}

int fewer_if_slow([[maybe_unused]] int all, int few) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return few;
#else
  return std::ranges::any_of(backends(), [](const Backend& b) { return b.emulated; }) ? few : all;
#endif
}

const Backend& oracle() {
  static const Backend ref{"ref", make_ref_ops(), allocate_on_host};
  return ref;
}

}  // namespace fp::test
