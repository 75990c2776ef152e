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

// Whether bf16 is multiplied faster widened to fp32 than by the CPU's dot products, from the FLOP/s of both: so it is
// on Intel's CPUs whose AMX cannot be used, where AVX512_BF16 has half the rate of fp32; on AMD's it has twice the
// rate.
bool widening_is_faster(double dot_products, double fp32);

// Returns best_isa() or, if that is AVX512_BF16 and measurements say that widening is faster, AVX-512. They take a few
// milliseconds in the first call.
Isa fastest_isa();

// Returns fastest_isa(), or the one up to best_isa() named by the environment variable FPTRAIN_ISA. Throws ConfigError
// for an unknown name and for one that this CPU does not support.
Isa chosen_isa();

}  // namespace fp
