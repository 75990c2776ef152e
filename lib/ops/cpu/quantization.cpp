#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kQuantizedGrain = 4096;  // elements

// Rounds to the nearest integer, ties to even, for magnitudes below 2^22: unlike nearbyint() in vector instructions of
// every processor.
inline int rounded(float x) {
  constexpr float kOnes = 12582912.0f;  // 1.5 * 2^23: from here on floats are whole numbers
  return static_cast<int>(std::bit_cast<uint32_t>(x + kOnes) - std::bit_cast<uint32_t>(kOnes));
}

// Quantizes a block of floats: writes its scale, and its codes from the byte on in which it begins.
void pack_block(float* scale, uint8_t* codes, const float* x, int64_t count, int bits) {
  uint32_t largest = 0;  // magnitudes in the order of their bits: infinities and NaN are the largest
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const bool finite = largest < 0x7f800000u;
  const auto limit = static_cast<float>(largest_code(bits));
  const float s = finite ? std::bit_cast<float>(largest) / limit : std::numeric_limits<float>::quiet_NaN();
  *scale = s;
  if (!(s > 0)) {
    std::fill_n(codes, (count * bits + 7) / 8, uint8_t{0});
    return;
  }
  const auto code = [&](int64_t i) { return rounded(std::min(std::max(x[i] / s, -limit), limit)); };
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(code(i));
    return;
  }
  const auto two = [](int low, int high) {
    return static_cast<uint8_t>((static_cast<unsigned>(low) & 15u) | (static_cast<unsigned>(high) & 15u) << 4);
  };
  for (int64_t i = 0; i + 1 < count; i += 2) codes[i / 2] = two(code(i), code(i + 1));
  if (count % 2 == 1) codes[count / 2] = two(code(count - 1), 0);
}

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

// sums[i - begin] += code i * scale, for elements of one block; `begin` is even.
void add_elements(float* sums, const uint8_t* codes, float scale, int bits, int64_t begin, int64_t end) {
  const auto add = [&](int64_t i, int code) {
    const float x = static_cast<float>(code) * scale;
    sums[i - begin] += x;
  };
  if (bits == 8) {
    for (int64_t i = begin; i < end; ++i) add(i, static_cast<int8_t>(codes[i]));
    return;
  }
  for (int64_t i = begin; i + 1 < end; i += 2) {
    add(i, code_in_half(codes[i / 2], 0));
    add(i + 1, code_in_half(codes[i / 2], 1));
  }
  if ((end - begin) % 2 == 1) add(end - 1, code_in_half(codes[end / 2], 0));
}

// sums = the sum over p of elements [first, first + count) of row s of parts [P,S,bytes].
void sum_elements(float* sums, const Tensor& parts, int64_t s, const BlockFormat& f, int64_t n, int64_t first,
                  int64_t count) {
  std::fill_n(sums, count, 0.0f);
  for (int64_t p = 0; p < parts.shape[0]; ++p) {
    const PackedRow row(parts, p * parts.shape[1] + s, f, n);
    for (int64_t begin = first, end = 0; begin < first + count; begin = end) {
      end = std::min(first + count, (begin / f.block + 1) * f.block);
      add_elements(sums + begin - first, row.codes, row.scales[begin / f.block], f.bits, begin, end);
    }
  }
}

template <class T, class Base>
void quantize_rows(const calls::Quantize& call) {
  const int64_t rows = call.x.rows(), n = call.x.cols(), outer = rows / call.inner;
  for_each_block(call.format, rows, n, [&](int64_t row, int64_t block, int64_t first, int64_t count) {
    const int64_t offset = ((row % outer) * call.inner + row / outer) * n + first;
    const T* const from = call.x.ptr<T>() + offset;
    thread_local std::vector<float> x;
    x.assign(from, from + count);
    if (call.base) {
      const Base* const base = call.base.ptr<Base>() + offset;
      for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(i)] -= static_cast<float>(base[i]);
    }
    rotate_part(x.data(), call.format, n, first, count);
    const PackedRow to(call.packed, row, call.format, n);
    pack_block(to.scales + block, to.codes_at(first, call.format.bits), x.data(), count, call.format.bits);
  });
}

template <class T>
void sum_rows(const calls::SumQuantized& call) {
  const int64_t n = call.y.cols();
  for_each_block(call.format, call.y.rows(), n, [&](int64_t row, int64_t, int64_t first, int64_t count) {
    thread_local std::vector<float> sums;
    sums.resize(static_cast<size_t>(count));
    sum_elements(sums.data(), call.parts, row, call.format, n, first, count);
    rotate_part(sums.data(), call.format, n, first, count);
    T* const y = call.y.ptr<T>() + row * n + first;
    for (int64_t i = 0; i < count; ++i) {
      const float sum = sums[static_cast<size_t>(i)] * call.factor;
      y[i] = static_cast<T>(call.write == Write::add ? static_cast<float>(y[i]) + sum : sum);
    }
  });
}

}  // namespace

void CpuOps::run(const calls::Quantize& call) {
  const bool narrow_base = call.base && call.base.dtype == DType::bf16;
  if (call.x.dtype == DType::bf16)
    narrow_base ? quantize_rows<bf16, bf16>(call) : quantize_rows<bf16, float>(call);
  else
    narrow_base ? quantize_rows<float, bf16>(call) : quantize_rows<float, float>(call);
}

void CpuOps::run(const calls::SumQuantized& call) {
  call.y.dtype == DType::bf16 ? sum_rows<bf16>(call) : sum_rows<float>(call);
}

void CpuOps::run(const calls::RequantizeSums& call) {
  const int64_t n = call.columns;
  for_each_block(call.to, call.packed.shape[0], n, [&](int64_t row, int64_t block, int64_t first, int64_t count) {
    thread_local std::vector<float> sums;
    sums.resize(static_cast<size_t>(count));
    sum_elements(sums.data(), call.parts, row, call.from, n, first, count);
    const PackedRow to(call.packed, row, call.to, n);
    pack_block(to.scales + block, to.codes_at(first, call.to.bits), sums.data(), count, call.to.bits);
  });
}

}  // namespace fp
