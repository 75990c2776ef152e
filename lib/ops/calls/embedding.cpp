#include "ops/calls/embedding.h"

#include "ops/calls/checks.h"

namespace fp::calls {

void check(const Embedding& c) {
  const Checks op(c);
  op.compute("table", c.table);
  op.rank("table", c.table, 2);
  op.compute("y", c.y);
  op.matrix("y", c.y, c.table.dtype, c.y.rows(), c.table.cols());
  op.count("ids", c.ids, DType::i32, c.y.rows());
  if (!c.positions_table) return op.empty("positions", c.positions, "as positions_table is");
  op.matrix("positions_table", c.positions_table, c.table.dtype, c.positions_table.rows(), c.table.cols());
  op.count("positions", c.positions, DType::i32, c.y.rows());
}
OpWork cost(const Embedding& c) {
  const double tables = c.positions_table ? 2 : 1;  // only the rows of the tokens are read
  return work(c, c.y.dtype, count_of(c.y) * tables, bytes_of(c.ids, c.positions) + bytes_of(c.y) * (1 + tables));
}

void check(const EmbeddingBackward& c) {
  const Checks op(c);
  op.compute("dy", c.dy);
  op.rank("dtable", c.dtable, 2);
  op.exactly("dtable", c.dtable, DType::f32, {c.dtable.shape[0], c.dy.cols()});
  op.count("ids", c.ids, DType::i32, c.dy.rows());
}
OpWork cost(const EmbeddingBackward& c) {
  const double rows = count_of(c.dy) * static_cast<double>(size_of(c.dtable.dtype));
  return work(c, c.dy.dtype, 2 * count_of(c.dy), bytes_of(c.dy, c.ids) + 2 * rows);
}

}  // namespace fp::calls
