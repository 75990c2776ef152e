// The CPU backend, once for every instruction set that this CPU offers.
#include <chrono>
#include <random>
#include <thread>

#include "backends.h"
#include "ops/cpu/cpu_ops.h"

namespace fp::test {
namespace {

// Delays copies at random, by up to half a millisecond, so that a missing wait shows.
void delay(CopyLane lane) {
  thread_local std::mt19937 random(static_cast<unsigned>(lane));
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
}

}  // namespace

const std::vector<Backend>& backends() {
  // The one in use first, or the best.
  static const std::vector<Backend> all = [] {
    std::vector<Backend> cpus;
    for (int i = static_cast<int>(chosen_isa() == fastest_isa() ? best_isa() : chosen_isa()); i >= 0; --i) {
      const auto isa = static_cast<Isa>(i);
      cpus.push_back({fmt::format("cpu {}", name_of(isa)), std::make_shared<CpuOps>(isa, CopySettings{{}, delay}),
                      allocate_on_host});
    }
    return cpus;
  }();
  return all;
}

}  // namespace fp::test
