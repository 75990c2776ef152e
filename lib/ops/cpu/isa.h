// The instruction sets that the kernels are compiled for, and the choice of the one that this process uses.
#pragma once

#include <string_view>

namespace fp {

enum class Isa : unsigned char { baseline, avx2, avx512, avx512bf16, amx };

constexpr std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"baseline", "avx2", "avx512", "avx512bf16", "amx"};
  return names[static_cast<int>(isa)];
}

// Returns the best instruction set that both this CPU and this build support.
Isa best_isa();

// Returns best_isa(), but AVX-512 in place of AVX512_BF16 on Intel's CPUs since Sapphire Rapids whose AMX cannot be
// used: there a product of bf16 takes twice as long as one of the same operands widened to fp32. This is known from
// measurements (docs/benchmarks.md) and not measured at start, so that equal machines choose equally, however busy.
Isa fastest_isa();
// Applies that rule to a CPU that is Intel's or not, and has AVX512_FP16 or not, as they do since Sapphire Rapids.
Isa fastest_isa(Isa best, bool intel, bool avx512_fp16);

// Returns fastest_isa(), or the one up to best_isa() named by the environment variable FPTRAIN_ISA. Throws ConfigError
// for an unknown name and for one that this CPU does not support.
Isa chosen_isa();

}  // namespace fp
