// The CUDA backend on a GPU.
#include <cstdlib>
#include <iostream>

#include "backends.h"
#include "ops/backends.h"

namespace fp::test {

const std::vector<Backend>& backends() {
  // Never destroyed: exit handlers may have unloaded parts of cuDNN before a static is destroyed.
  static const auto* const all = [] {
    if (const std::string missing = cuda_unavailable(0); !missing.empty()) {
      std::cout << "SKIPPED: " << missing << std::endl;
      std::_Exit(4);  // a skip, as in tests/support/main.cpp: nothing in this executable can run
    }
    Backend b;
    b.name = "cuda";
    b.ops = make_cuda_ops(0);
    b.ops->reserve_scratch(size_t{64} << 20);
    b.allocate = [ops = b.ops](size_t bytes) { return ops->allocate(bytes); };
    b.host_memory = false;
    b.both_alignments = true;
    return new std::vector<Backend>{b};
  }();
  return *all;
}

}  // namespace fp::test
