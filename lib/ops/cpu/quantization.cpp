#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kQuantizedGrain = 4096;  // elements

// Rotates the part [first, first + count) of a row of n elements, which begins with a block.
void rotate_part(float* x, const BlockFormat& f, int64_t n, int64_t first, int64_t count) {
  const int64_t end = std::min(count, rotated_elements(f, n) - first);
  for (int64_t i = 0; i < end; i += kRotated) rotate(x + i);
}

// Calls f(row, block, first element, count) for each block of `rows` rows of n elements.
template <class F>
void for_each_block(const BlockFormat& f, int64_t rows, int64_t n, F&& body) {
  const int64_t blocks = blocks_of(f, n);
  parallel_for(rows * blocks, std::max<int64_t>(1, kQuantizedGrain / f.block), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t row = at / blocks, block = at % blocks, first = block * f.block;
      body(row, block, first, std::min(f.block, n - first));
    }
  });
}

// The scales and codes of a packed row.
struct PackedRow {
  float* scales;
  uint8_t* codes;
  PackedRow(const Tensor& t, int64_t row, const BlockFormat& f, int64_t n)
      : scales(reinterpret_cast<float*>(static_cast<std::byte*>(t.data) + row * packed_bytes(f, n))),
        codes(reinterpret_cast<uint8_t*>(scales + blocks_of(f, n))) {}
  uint8_t* codes_at(int64_t element, int bits) const { return codes + element * bits / 8; }
};

// sums = the sum over p of elements [first, first + count) of row s of parts [P,S,bytes].
void sum_elements(const cpu::Kernels& k, float* sums, const Tensor& parts, int64_t s, const BlockFormat& f, int64_t n,
                  int64_t first, int64_t count) {
  std::fill_n(sums, count, 0.0f);
  for (int64_t p = 0; p < parts.shape[0]; ++p) {
    const PackedRow row(parts, p * parts.shape[1] + s, f, n);
    for (int64_t begin = first, end = 0; begin < first + count; begin = end) {
      end = std::min(first + count, (begin / f.block + 1) * f.block);
      k.add_block(sums + begin - first, row.codes_at(begin, f.bits), row.scales[begin / f.block], end - begin, f.bits);
    }
  }
}

// Memory for the values of a block.
float* values_of(int64_t count) {
  thread_local std::vector<float> values;
  values.resize(static_cast<size_t>(count));
  return values.data();
}

const std::byte* at(const Tensor& t, int64_t element) {
  return static_cast<const std::byte*>(t.data) + element * static_cast<int64_t>(size_of(t.dtype));
}

}  // namespace

void CpuOps::run(const calls::Quantize& call) {
  const int64_t rows = call.x.rows(), n = call.x.cols(), outer = rows / call.inner;
  for_each_block(call.format, rows, n, [&](int64_t row, int64_t block, int64_t first, int64_t count) {
    const int64_t offset = ((row % outer) * call.inner + row / outer) * n + first;
    float* const x = values_of(count);
    k_.load_block({call.x.dtype == DType::bf16, call.base.dtype == DType::bf16, count, x, at(call.x, offset),
                   call.base ? at(call.base, offset) : nullptr});
    rotate_part(x, call.format, n, first, count);
    const PackedRow to(call.packed, row, call.format, n);
    k_.quantize_block(to.scales + block, to.codes_at(first, call.format.bits), x, count, call.format.bits);
  });
}

void CpuOps::run(const calls::SumQuantized& call) {
  const int64_t n = call.y.cols();
  for_each_block(call.format, call.y.rows(), n, [&](int64_t row, int64_t, int64_t first, int64_t count) {
    float* const sums = values_of(count);
    sum_elements(k_, sums, call.parts, row, call.format, n, first, count);
    rotate_part(sums, call.format, n, first, count);
    void* const y = const_cast<std::byte*>(at(call.y, row * n + first));
    k_.store_block({call.y.dtype == DType::bf16, call.write == Write::add, count, call.factor, y, sums});
  });
}

void CpuOps::run(const calls::RequantizeSums& call) {
  const int64_t n = call.columns;
  for_each_block(call.to, call.packed.shape[0], n, [&](int64_t row, int64_t block, int64_t first, int64_t count) {
    float* const sums = values_of(count);
    sum_elements(k_, sums, call.parts, row, call.from, n, first, count);
    const PackedRow to(call.packed, row, call.to, n);
    k_.quantize_block(to.scales + block, to.codes_at(first, call.to.bits), sums, count, call.to.bits);
  });
}

}  // namespace fp
