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
  // The one in use first. Without FPTRAIN_ISA all others follow, else those below it.
  static const std::vector<Backend> all = [] {
    std::vector<Backend> cpus;
    const Isa used = chosen_isa(), last = used == fastest_isa() ? best_isa() : used;
    const auto add = [&](Isa isa) {
      cpus.push_back({fmt::format("cpu {}", name_of(isa)), std::make_shared<CpuOps>(isa, CopySettings{{}, delay}),
                      allocate_on_host});
    };
    add(used);
    for (int i = static_cast<int>(last); i >= 0; --i)
      if (static_cast<Isa>(i) != used) add(static_cast<Isa>(i));
    return cpus;
  }();
  return all;
}

}  // namespace fp::test
