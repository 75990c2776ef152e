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

// Returns best_isa(), or the lower one named by the environment variable FPTRAIN_ISA. Throws ConfigError for an unknown
// name and for one that this CPU does not support.
Isa chosen_isa();

}  // namespace fp
