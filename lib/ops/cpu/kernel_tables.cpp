// The kernel table of each instruction set. AMX has its own kernels where there are matrix products, else those of
// AVX512_BF16.
#include "ops/cpu/kernels.h"
#include "ops/cpu/kernels/table_amx.h"

namespace fp::cpu {

#ifdef FP_KERNELS_avx2
namespace avx2 {
const Kernels& table();
}
#endif
#ifdef FP_KERNELS_avx512
namespace avx512 {
const Kernels& table();
}
#endif
#ifdef FP_KERNELS_avx512bf16
namespace avx512bf16 {
const Kernels& table();
}
#endif
namespace baseline {
const Kernels& table();
}

#ifdef FP_KERNELS_amx
static const Kernels& table_of_amx() {
  static const Kernels kTable = [] {
    Kernels k = avx512bf16::table();
    k.isa = Isa::amx;
    amx::use_tiles(k);
    return k;
  }();
  return kTable;
}
#endif

const Kernels& kernels(Isa isa) {
  switch (isa) {
#ifdef FP_KERNELS_amx
    case Isa::amx:
      return table_of_amx();
#endif
#ifdef FP_KERNELS_avx512bf16
    case Isa::avx512bf16:
      return avx512bf16::table();
#endif
#ifdef FP_KERNELS_avx512
    case Isa::avx512:
      return avx512::table();
#endif
#ifdef FP_KERNELS_avx2
    case Isa::avx2:
      return avx2::table();
#endif
    default:
      return baseline::table();
  }
}

}  // namespace fp::cpu
