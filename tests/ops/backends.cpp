#include "ops/backends.h"

#include <cstdlib>

#include "backends.h"

namespace fp::test {
namespace {

std::shared_ptr<void> allocate_on_host(size_t bytes) {
  const size_t rounded = (bytes + 255) / 256 * 256;
  return {std::aligned_alloc(256, rounded), std::free};
}

}  // namespace

const Backend& oracle() {
  static const Backend ref{"ref", make_ref_ops(), allocate_on_host};
  return ref;
}

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all{{"cpu", make_cpu_ops(), allocate_on_host}};
  return all;
}

}  // namespace fp::test
