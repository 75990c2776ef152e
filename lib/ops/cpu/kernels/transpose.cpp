// Transposition of matrices.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"
#include "ops/cpu/kernels/units.h"

namespace fp::cpu::FP_ISA {

void transpose(const TransposeArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    auto* y = static_cast<T*>(a.y);
    const auto* x = static_cast<const T*>(a.x);
    // A piece is kLanes rows of y, whose lines of memory are complete when it is written.
    parallel_for(blocks_of(a.cols, kLanes), larger(1, 1024 / larger(1, a.rows)), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin * kLanes; c < smaller(end * kLanes, a.cols); c += kLanes)
        for (int64_t r = 0; r < a.rows; r += kLanes)
          transpose_block(y + c * a.rows + r, a.rows, x + r * a.cols + c, a.cols, smaller(kLanes, a.rows - r),
                          smaller(kLanes, a.cols - c));
    });
  });
}

}  // namespace fp::cpu::FP_ISA
