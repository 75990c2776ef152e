#include <algorithm>
#include <cstring>

#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

void pack(std::byte* packed, const std::vector<float>& row, const BlockFormat& f) {
  const auto n = static_cast<int64_t>(row.size());
  auto* const codes = reinterpret_cast<uint8_t*>(packed) + 4 * blocks_of(f, n);
  std::fill_n(codes, code_bytes(f, n), uint8_t{0});
  for (int64_t b = 0; b < blocks_of(f, n); ++b) {
    const int64_t begin = b * f.block, end = std::min(n, begin + f.block);
    float largest = 0;
    for (int64_t i = begin; i < end; ++i) {
      const float magnitude = std::abs(row[static_cast<size_t>(i)]);
      largest = !std::isfinite(magnitude) || std::isnan(largest) ? std::numeric_limits<float>::quiet_NaN()
                                                                 : std::max(largest, magnitude);
    }
    const float scale = largest / static_cast<float>(largest_code(f.bits));
    std::memcpy(packed + 4 * b, &scale, sizeof scale);
    for (int64_t i = begin; i < end; ++i) {
      const int code = scale > 0 ? static_cast<int>(std::nearbyint(row[static_cast<size_t>(i)] / scale)) : 0;
      const int legal = std::clamp(code, -largest_code(f.bits), largest_code(f.bits));
      if (f.bits == 8)
        codes[i] = static_cast<uint8_t>(legal);
      else
        codes[i / 2] = static_cast<uint8_t>(codes[i / 2] | (static_cast<unsigned>(legal) & 15u) << (4 * (i % 2)));
    }
  }
}

std::vector<float> unpacked(const std::byte* packed, const BlockFormat& f, int64_t n) {
  const auto* const codes = reinterpret_cast<const uint8_t*>(packed) + 4 * blocks_of(f, n);
  std::vector<float> row;
  for (int64_t i = 0; i < n; ++i) {
    float scale = 0;
    std::memcpy(&scale, packed + 4 * (i / f.block), sizeof scale);
    const int code = f.bits == 8 ? static_cast<int8_t>(codes[i]) : code_in_half(codes[i / 2], i % 2);
    row.push_back(static_cast<float>(code) * scale);
  }
  return row;
}

void rotate_row(std::vector<float>& row, const BlockFormat& f) {
  for (int64_t i = 0; i < rotated_elements(f, static_cast<int64_t>(row.size())); i += kRotated) rotate(row.data() + i);
}

// Returns the sum over p of row `s` of parts [P,S,bytes].
std::vector<float> summed(const Tensor& parts, int64_t s, const BlockFormat& f, int64_t n) {
  std::vector<float> sum(static_cast<size_t>(n), 0.0f);
  for (int64_t p = 0; p < parts.shape[0]; ++p) {
    const auto* const from = static_cast<const std::byte*>(parts.data) + (p * parts.shape[1] + s) * parts.shape[2];
    const std::vector<float> part = unpacked(from, f, n);
    for (size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

}  // namespace

void RefOps::run(const calls::Quantize& call) {
  ref::Values X = ref::load(call.x);
  if (call.base) {
    const ref::Values base = ref::load(call.base);
    for (size_t i = 0; i < X.size(); ++i) X[i] = static_cast<float>(X[i]) - static_cast<float>(base[i]);
  }
  const int64_t rows = call.x.rows(), n = call.x.cols(), outer = rows / call.inner;
  for (int64_t i = 0; i < rows; ++i) {
    const auto first = X.begin() + ((i % outer) * call.inner + i / outer) * n;
    std::vector<float> row(first, first + n);
    rotate_row(row, call.format);
    pack(static_cast<std::byte*>(call.packed.data) + i * packed_bytes(call.format, n), row, call.format);
  }
}

void RefOps::run(const calls::SumQuantized& call) {
  const ref::Values before = call.write == Write::add ? ref::load(call.y) : ref::Values();
  ref::Values Y;
  for (int64_t s = 0; s < call.y.rows(); ++s) {
    std::vector<float> sum = summed(call.parts, s, call.format, call.y.cols());
    rotate_row(sum, call.format);
    for (float x : sum) {
      x *= call.factor;
      Y.push_back(before.empty() ? x : static_cast<float>(before[Y.size()]) + x);
    }
  }
  ref::store(call.y, Y);
}

void RefOps::run(const calls::RequantizeSums& call) {
  for (int64_t s = 0; s < call.packed.shape[0]; ++s)
    pack(static_cast<std::byte*>(call.packed.data) + s * call.packed.shape[1],
         summed(call.parts, s, call.from, call.columns), call.to);
}

}  // namespace fp
