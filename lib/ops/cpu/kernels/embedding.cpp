// Token and position embeddings. Memory-bound gathers; the backward pass gives each thread a range of columns, so that
// the tokens are added in order whatever the number of threads.
#include "ops/cpu/kernels/dispatch.h"
#include "ops/cpu/kernels/table.h"

namespace fp::cpu::FP_ISA {
namespace {

// Returns null when there is no row: no table, or index -1.
template <class T>
FP_INLINE const T* row_of(const void* table, const int32_t* rows, int64_t r, int64_t cols) {
  return rows == nullptr || rows[r] < 0 ? nullptr : static_cast<const T*>(table) + rows[r] * cols;
}

}  // namespace

void embedding(const EmbeddingArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.rows, row_grain(a.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = row_of<T>(a.table, a.ids, r, a.cols);
        const T* position = row_of<T>(a.positions_table, a.positions, r, a.cols);
        T* y = static_cast<T*>(a.y) + r * a.cols;
        columns(a.cols, [&](int64_t c, auto w) {
          Vf v{};
          if (row != nullptr) v = load(row + c, w) * a.scale;
          if (position != nullptr) v += load(position + c, w);
          store(y + c, v, w);
        });
      }
    });
  });
}

void embedding_backward(const EmbeddingBackwardArgs& a) {
  with_type(a.bf16, [&](auto t) {
    using T = decltype(t);
    parallel_for(a.cols, 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < a.rows; ++r) {
        if (a.ids[r] < 0) continue;
        float* row = a.dtable + a.ids[r] * a.cols + begin;
        const T* dy = static_cast<const T*>(a.dy) + r * a.cols + begin;
        columns(end - begin,
                [&](int64_t c, auto w) { store(row + c, load(row + c, w) + load(dy + c, w) * a.scale, w); });
      }
    });
  });
}

}  // namespace fp::cpu::FP_ISA
