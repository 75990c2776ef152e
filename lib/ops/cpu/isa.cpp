#include "ops/cpu/isa.h"

#include <cstdlib>
#include <string>

#include "base/amx_tiles.h"
#include "base/error.h"

namespace fp {

Isa best_isa() {
#ifdef FP_X86_KERNELS
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("movbe") && __builtin_cpu_supports("lzcnt");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx512bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  const bool amx = avx512bf16 && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  if (amx && request_amx_tiles()) return Isa::amx;
  if (avx512bf16) return Isa::avx512bf16;
  if (avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::baseline;
}

Isa chosen_isa() {
  const Isa best = best_isa();
  const char* wish = std::getenv("FPTRAIN_ISA");
  if (wish == nullptr || *wish == '\0') return best;
  std::string legal;
  for (int i = 0; i <= static_cast<int>(best); ++i) {
    const auto isa = static_cast<Isa>(i);
    if (name_of(isa) == wish) return isa;
    legal += (i ? ", " : "") + std::string(name_of(isa));
  }
  throw ConfigError(
      fmt::format("environment variable FPTRAIN_ISA: '{}' is not offered by this CPU; legal: {}", wish, legal));
}

}  // namespace fp
