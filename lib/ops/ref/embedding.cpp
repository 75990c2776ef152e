#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                       const Tensor& positions_table, double scale) {
  checks::embedding(y, ids, table, positions, positions_table);
  const int64_t M = y.rows(), h = y.cols();
  const auto rows = ref::load_ids("embedding", "ids", ids, -1, table.shape[0]);
  const Values E = ref::load(table), P = ref::load(positions_table);
  std::vector<int64_t> places;
  if (positions_table) places = ref::load_ids("embedding", "positions", positions, -1, positions_table.rows());
  Values Y(static_cast<size_t>(M * h));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h; ++c) {
      if (rows[m] >= 0) Y[m * h + c] = scale * E[rows[m] * h + c];
      if (positions_table && places[m] >= 0) Y[m * h + c] += P[places[m] * h + c];
    }
  ref::store(y, Y);
}

void RefOps::embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double scale) {
  checks::embedding_backward(dtable, dy, ids);
  const int64_t M = dy.rows(), h = dy.cols();
  const auto rows = ref::load_ids("embedding_backward", "ids", ids, -1, dtable.shape[0]);
  const Values DY = ref::load(dy);
  Values D = ref::load(dtable);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h && rows[m] >= 0; ++c) D[rows[m] * h + c] += scale * DY[m * h + c];
  ref::store(dtable, D);
}

}  // namespace fp
