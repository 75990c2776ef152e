#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

using ref::Values;

void RefOps::run(const calls::Embedding& call) {
  const int64_t M = call.y.rows(), h = call.y.cols();
  const auto rows = ref::load_ids(op_name(call), "ids", call.ids, -1, call.table.shape[0]);
  const Values E = ref::load(call.table), P = ref::load(call.positions_table);
  std::vector<int64_t> places;
  if (call.positions_table)
    places = ref::load_ids(op_name(call), "positions", call.positions, -1, call.positions_table.rows());
  Values Y(static_cast<size_t>(M * h));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h; ++c) {
      if (rows[m] >= 0) Y[m * h + c] = call.scale * E[rows[m] * h + c];
      if (call.positions_table && places[m] >= 0) Y[m * h + c] += P[places[m] * h + c];
    }
  ref::store(call.y, Y);
}

void RefOps::run(const calls::EmbeddingBackward& call) {
  const int64_t M = call.dy.rows(), h = call.dy.cols();
  const auto rows = ref::load_ids(op_name(call), "ids", call.ids, -1, call.dtable.shape[0]);
  const Values DY = ref::load(call.dy);
  Values D = ref::load(call.dtable);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < h && rows[m] >= 0; ++c) D[rows[m] * h + c] += call.scale * DY[m * h + c];
  ref::store(call.dtable, D);
}

}  // namespace fp
