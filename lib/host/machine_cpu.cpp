// Detects instruction sets by CPUID, and whether the kernel saves their registers.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "base/amx_tiles.h"
#include "host/machine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fp {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

constexpr bool bit(uint64_t word, int n) { return ((word >> n) & 1u) != 0; }

// XCR0: the register sets that the kernel saves at a context switch; 0 when it saves none.
uint64_t saved_state() {
  if (!bit(cpuid(1, 0).c, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

void inspect_isa(CpuFacts& cpu) {
  const Registers basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  const uint64_t saved = saved_state();
  const bool ymm = (saved & 0x6u) == 0x6u, zmm = (saved & 0xE6u) == 0xE6u, tiles = (saved & 0x60000u) == 0x60000u;
  cpu.avx2 = ymm && bit(extended.b, 5) && bit(basic.c, 12);
  cpu.avx512 = zmm && bit(extended.b, 16) && bit(extended.b, 30) && bit(extended.b, 17) && bit(extended.b, 31);
  cpu.avx512_bf16 = cpu.avx512 && bit(more.a, 5);
  cpu.amx_bf16 = bit(extended.d, 24) && bit(extended.d, 22);
  cpu.amx_usable = cpu.amx_bf16 && tiles && request_amx_tiles();
}

#else

void inspect_isa(CpuFacts&) {}

#endif

std::string first_line(const std::filesystem::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

std::string model_name(const MachineRoots& roots) {
  std::ifstream in(roots.proc / "cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size())
      return line.substr(colon + 2);
  }
  return "unknown";
}

int count_numa_nodes(const MachineRoots& roots) {
  int nodes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(roots.sys / "devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos) ++nodes;
  }
  return std::max(nodes, 1);
}

}  // namespace

CpuFacts inspect_cpu(const MachineRoots& roots) {
  CpuFacts cpu;
  cpu.model = model_name(roots);
  cpu.logical = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  cpu.numa_nodes = count_numa_nodes(roots);
  cpu.quota = control_group_limits(roots).cpus;
  // The siblings of a core have identical lists, so the number of distinct lists is the number of cores.
  std::set<std::string> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (!CPU_ISSET(i, &mask)) continue;
      ++cpu.usable;
      const std::string siblings =
          first_line(roots.sys / fmt::format("devices/system/cpu/cpu{}/topology/thread_siblings_list", i));
      cores.insert(siblings.empty() ? fmt::format("cpu{}", i) : siblings);
    }
  }
  if (cpu.usable == 0) cpu.usable = cpu.logical;  // more CPUs than the mask can hold
  cpu.usable_cores = cores.empty() ? cpu.usable : static_cast<int>(cores.size());
  inspect_isa(cpu);
  return cpu;
}

int core_quota_of(double cpus) {
  // A quota of a report can be any number, so it is limited before it becomes an integer.
  return cpus > 0 ? static_cast<int>(std::clamp(std::ceil(cpus), 1.0, 1e6)) : 0;
}

std::string isa_text(const CpuFacts& cpu) {
  std::string text;
  const auto add = [&](bool has, const char* name) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(cpu.avx2, "AVX2");
  add(cpu.avx512, "AVX-512");
  add(cpu.avx512_bf16, "AVX512_BF16");
  add(cpu.amx_usable, "AMX-BF16");
  return text.empty() ? "baseline only" : text;
}

}  // namespace fp
