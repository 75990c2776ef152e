// Column sums of a matrix: partial sums of kRowChunk rows each, then the sum of the partial sums in order. The chunks
// depend only on the shape, so the result does not depend on the number of threads.
#pragma once

#include "ops/cpu/kernels/dispatch.h"

namespace fp::cpu::FP_ISA {

constexpr int64_t kStrip = 512;  // columns in a work item: their partial sums stay in the first-level cache

// Calls row(chunk, r, first, last) for every row r of a chunk in order, with columns [first, last).
template <class F>
FP_INLINE void sum_chunks(int64_t rows, int64_t cols, F&& row) {
  const int64_t strips = (cols + kStrip - 1) / kStrip;
  parallel_for(row_chunks(rows) * strips, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t chunk = item / strips, first = item % strips * kStrip, last = smaller(first + kStrip, cols);
      const int64_t end_row = smaller((chunk + 1) * kRowChunk, rows);
      for (int64_t r = chunk * kRowChunk; r < end_row; ++r) row(chunk, r, first, last);
    }
  });
}

FP_INLINE void add_chunks(float* dst, const float* partial, int64_t rows, int64_t cols, bool add) {
  parallel_for(cols, kStrip, [&](int64_t begin, int64_t end) {
    columns(end - begin, [&](int64_t i, auto w) {
      const int64_t c = begin + i;
      Vf total = load(partial + c, w);
      for (int64_t chunk = 1; chunk < row_chunks(rows); ++chunk) total += load(partial + chunk * cols + c, w);
      store(dst + c, add ? load(dst + c, w) + total : total, w);
    });
  });
}

}  // namespace fp::cpu::FP_ISA
