#include "ops/calls/quantization.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

constexpr int64_t kLargestBlock = 8192;  // its sums fit in the shared memory of a GPU's block of threads

void check_format(const Checks& op, const BlockFormat& f) {
  const int64_t step = f.rotated ? kRotated : 8;
  FP_CHECK((f.bits == 4 || f.bits == 8) && f.block >= step && f.block <= kLargestBlock && f.block % step == 0,
           "{}: {} bits in blocks of {}; expected 4 or 8 bits in blocks of {} to {} elements, a multiple of {}",
           op.name, f.bits, f.block, step, kLargestBlock, step);
}

// The tensor is u8 and holds rows of the format.
void check_rows(const Checks& op, const char* what, const Tensor& t, const BlockFormat& f, int64_t rows,
                int64_t columns) {
  check_format(op, f);
  op.matrix(what, t, DType::u8, rows, packed_bytes(f, columns));
  FP_CHECK(reinterpret_cast<uintptr_t>(t.data) % 4 == 0, "{}: {} is not aligned to 4 bytes", op.name, what);
}

// Returns P of parts [P,S,bytes].
int64_t parts_of(const Checks& op, const Tensor& parts) {
  op.rank("parts", parts, 3);
  return parts.shape[0];
}

// Of an element.
double rotation_flops(const BlockFormat& f) { return f.rotated ? 6 : 0; }

}  // namespace

void check(const Quantize& c) {
  const Checks op(c);
  op.compute("x", c.x);
  check_rows(op, "packed", c.packed, c.format, c.x.rows(), c.x.cols());
  FP_CHECK(c.inner >= 1 && c.x.rows() % c.inner == 0, "quantize: {} rows in groups of {}", c.x.rows(), c.inner);
  if (!c.base) return;
  op.compute("base", c.base);
  FP_CHECK(c.base.rows() == c.x.rows() && c.base.cols() == c.x.cols(), "quantize: base is {}, x is {}",
           describe(c.base), describe(c.x));
}
OpWork cost(const Quantize& c) {
  return work(c, c.x.dtype, (4 + rotation_flops(c.format)) * count_of(c.x), bytes_of(c.packed, c.x, c.base));
}

void check(const SumQuantized& c) {
  const Checks op(c);
  op.compute("y", c.y);
  check_rows(op, "parts", c.parts, c.format, parts_of(op, c.parts) * c.y.rows(), c.y.cols());
}
OpWork cost(const SumQuantized& c) {
  return work(c, c.y.dtype, (2 * static_cast<double>(c.parts.shape[0]) + rotation_flops(c.format)) * count_of(c.y),
              bytes_of(c.parts) + bytes_written(c.y, c.write));
}

void check(const RequantizeSums& c) {
  const Checks op(c);
  op.rank("packed", c.packed, 2);
  const int64_t rows = c.packed.shape[0];
  FP_CHECK(c.columns >= 1, "requantize_sums: {} columns", c.columns);
  check_rows(op, "packed", c.packed, c.to, rows, c.columns);
  check_rows(op, "parts", c.parts, c.from, parts_of(op, c.parts) * rows, c.columns);
  FP_CHECK(c.from.rotated == c.to.rotated, "requantize_sums: one format is rotated, the other is not");
}
OpWork cost(const RequantizeSums& c) {
  const double sums = static_cast<double>(c.packed.shape[0]) * static_cast<double>(c.columns);
  return work(c, DType::u8, sums * (2 * static_cast<double>(c.parts.shape[0]) + 4), bytes_of(c.packed, c.parts));
}

}  // namespace fp::calls
