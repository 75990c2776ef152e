// The CPU backend, once for every instruction set that this CPU offers, and with the twin of AMX's kernels.
#include <chrono>
#include <random>
#include <thread>

#include "amx_twin.h"
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
    const auto add = [&](std::string_view name, const cpu::Kernels& kernels) {
      cpus.push_back(
          {fmt::format("cpu {}", name), std::make_shared<CpuOps>(kernels, CopySettings{{}, delay}), allocate_on_host});
    };
    const auto add_isa = [&](Isa isa) { add(name_of(isa), cpu::kernels(isa)); };
    add_isa(used);
    for (int i = static_cast<int>(last); i >= 0; --i)
      if (static_cast<Isa>(i) != used) add_isa(static_cast<Isa>(i));
    add("amx twin", amx_twin());
    return cpus;
  }();
  return all;
}

}  // namespace fp::test
