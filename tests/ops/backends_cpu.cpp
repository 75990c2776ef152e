// The CPU backend, once for every instruction set that this CPU offers.
#include "backends.h"
#include "ops/cpu/cpu_ops.h"

namespace fp::test {

const std::vector<Backend>& backends() {
  // The one in use first.
  static const std::vector<Backend> all = [] {
    std::vector<Backend> cpus;
    const int best = static_cast<int>(chosen_isa());
#ifdef __SANITIZE_THREAD__
    const int last = best;  // threads synchronise in the same places with all instruction sets
#else
    const int last = 0;
#endif
    for (int i = best; i >= last; --i) {
      const auto isa = static_cast<Isa>(i);
      cpus.push_back({fmt::format("cpu {}", name_of(isa)), std::make_shared<CpuOps>(isa), allocate_on_host});
    }
    return cpus;
  }();
  return all;
}

}  // namespace fp::test
