// The instruction sets the kernels are compiled for, and which one this process uses.
#pragma once

#include <string_view>

namespace fp {

enum class Isa : unsigned char { baseline, avx2, avx512, avx512bf16, amx };

constexpr std::string_view name_of(Isa isa) {
  constexpr std::string_view names[] = {"baseline", "avx2", "avx512", "avx512bf16", "amx"};
  return names[static_cast<int>(isa)];
}

// The best that this CPU and this build offer.
Isa best_isa();

// best_isa(), or the lower one named by the environment variable FPTRAIN_ISA. ConfigError for an unknown name or one
// that this CPU does not offer.
Isa chosen_isa();

}  // namespace fp
