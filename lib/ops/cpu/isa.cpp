#include "ops/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/amx_tiles.h"
#include "base/error.h"

#ifdef FP_X86_KERNELS
#include <cpuid.h>
#endif

namespace fp {
#ifdef FP_X86_KERNELS
namespace {

// The last one that has kernels in this build (FPTRAIN_LAST_ISA).
#if defined(FP_KERNELS_amx)
constexpr Isa kLast = Isa::amx;
#elif defined(FP_KERNELS_avx512bf16)
constexpr Isa kLast = Isa::avx512bf16;
#elif defined(FP_KERNELS_avx512)
constexpr Isa kLast = Isa::avx512;
#elif defined(FP_KERNELS_avx2)
constexpr Isa kLast = Isa::avx2;
#else
constexpr Isa kLast = Isa::baseline;
#endif

// Reads features that clang 14's __builtin_cpu_supports() does not know.
struct CpuidBits {
  unsigned a = 0, b = 0, c = 0, d = 0;
  explicit CpuidBits(unsigned leaf) { __get_cpuid_count(leaf, 0, &a, &b, &c, &d); }
};

bool has_f16c_movbe_lzcnt() {
  constexpr unsigned movbe = 1u << 22, f16c = 1u << 29, lzcnt = 1u << 5;
  return (CpuidBits(1).c & (movbe | f16c)) == (movbe | f16c) && (CpuidBits(0x80000001).c & lzcnt) != 0;
}

bool has_amx_bf16() {
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  return (CpuidBits(7).d & (amx_bf16 | amx_tile)) == (amx_bf16 | amx_tile);
}

bool has_avx512_fp16() {
  constexpr unsigned avx512_fp16 = 1u << 23;
  return (CpuidBits(7).d & avx512_fp16) != 0;
}

}  // namespace
#endif

Isa best_isa() {
#ifdef FP_X86_KERNELS
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && has_f16c_movbe_lzcnt();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx512bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  const bool amx = avx512bf16 && kLast >= Isa::amx && has_amx_bf16() && request_amx_tiles();
  const Isa best = amx          ? Isa::amx
                   : avx512bf16 ? Isa::avx512bf16
                   : avx512     ? Isa::avx512
                   : avx2       ? Isa::avx2
                                : Isa::baseline;
  return std::min(best, kLast);
#else
  return Isa::baseline;
#endif
}

Isa fastest_isa(Isa best, bool intel, bool avx512_fp16) {
  return best == Isa::avx512bf16 && intel && avx512_fp16 ? Isa::avx512 : best;
}

Isa fastest_isa() {
#ifdef FP_X86_KERNELS
  return fastest_isa(best_isa(), __builtin_cpu_is("intel"), has_avx512_fp16());
#else
  return best_isa();
#endif
}

Isa chosen_isa() {
  const Isa best = best_isa();
  const char* wish = std::getenv("FPTRAIN_ISA");
  if (wish == nullptr || *wish == '\0') return fastest_isa();
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
