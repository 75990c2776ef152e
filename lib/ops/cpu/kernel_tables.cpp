// The kernel table of each instruction set. AMX has its own kernels for matrix products, else those of AVX512_BF16.
#include "ops/cpu/kernels.h"

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
#ifdef FP_KERNELS_amx
namespace amx {
size_t attention_scratch(const AttentionArgs&);
void attention(const AttentionArgs&);
size_t attention_backward_scratch(const AttentionArgs&);
void attention_backward(const AttentionArgs&);

static const Kernels& table() {
  static const Kernels kTable = [] {
    Kernels k = avx512bf16::table();
    k.isa = Isa::amx;
    k.attention_scratch = attention_scratch;
    k.attention = attention;
    k.attention_backward_scratch = attention_backward_scratch;
    k.attention_backward = attention_backward;
    return k;
  }();
  return kTable;
}
}  // namespace amx
#endif
namespace baseline {
const Kernels& table();
}

const Kernels& kernels(Isa isa) {
  switch (isa) {
#ifdef FP_KERNELS_amx
    case Isa::amx:
      return amx::table();
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
