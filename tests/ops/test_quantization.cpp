// Quantized messages: the bits of the oracle on every backend, and what the formats promise.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends.h"
#include "base/error.h"
#include "ops/block_format.h"

using namespace fp;
using namespace fp::test;

namespace {

// Tensors in the memory of one backend.
class Device {
 public:
  explicit Device(const Backend& b) : backend_(&b) {}
  Ops& ops() const { return *backend_->ops; }
  Tensor empty(DType t, const Shape& shape) {
    Tensor made(nullptr, t, shape);
    memory_.push_back(backend_->allocate(static_cast<size_t>(shape.elements()) * size_of(t)));
    made.data = memory_.back().get();
    backend_->mark(made.data, made.bytes(), Mark::allowed);
    return made;
  }
  template <class T>
  Tensor filled(DType t, const Shape& shape, const std::vector<T>& content) {
    const Tensor made = empty(t, shape);
    ops().copy_in({made, content.data()});
    return made;
  }
  std::vector<uint8_t> bytes(const Tensor& t) const {
    std::vector<uint8_t> all(t.bytes());
    ops().copy_out({all.data(), t});
    REQUIRE(backend_->problems() == "");
    return all;
  }
  std::vector<float> floats(const Tensor& t) const {
    const std::vector<uint8_t> all = bytes(t);
    std::vector<float> values(static_cast<size_t>(t.elements()));
    std::memcpy(values.data(), all.data(), all.size());
    return values;
  }

 private:
  const Backend* backend_;
  std::vector<std::shared_ptr<void>> memory_;
};

std::vector<float> normals(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

// Returns the defined bytes of packed rows.
std::vector<uint8_t> defined(std::vector<uint8_t> packed, const BlockFormat& f, int64_t rows, int64_t n) {
  std::vector<uint8_t> kept;
  const auto used = static_cast<size_t>(4 * blocks_of(f, n) + code_bytes(f, n));
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = packed.begin() + r * packed_bytes(f, n);
    kept.insert(kept.end(), first, first + static_cast<std::ptrdiff_t>(used));
  }
  return kept;
}

std::vector<const Backend*> all_backends() {
  std::vector<const Backend*> all{&oracle()};
  for (const Backend& b : backends()) all.push_back(&b);
  return all;
}

const std::vector<BlockFormat> kFormats{{8, 256}, {4, 256},  {8, 8},        {4, 8},
                                        {4, 40},  {8, 1000}, {4, 64, true}, {8, 1024, true}};

// Returns a row as it is quantized.
std::vector<float> rotated(std::vector<float> row, const BlockFormat& f) {
  for (int64_t i = 0; i < rotated_elements(f, static_cast<int64_t>(row.size())); i += kRotated) rotate(row.data() + i);
  return row;
}

}  // namespace

TEST_CASE("quantized rows have the oracle's bits, and elements are off by half a scale at most") {
  constexpr int64_t kRows = 6;
  for (const int64_t n : {1, 7, 256, 1030})
    for (const BlockFormat& f : kFormats)
      for (const DType t : {DType::f32, DType::bf16}) {
        CAPTURE(n, f.bits, f.block, name_of(t));
        std::vector<float> x = normals(kRows * n, static_cast<unsigned>(n));
        const int limit = largest_code(f.bits);
        for (int64_t i = 0; i < n; ++i) {
          x[static_cast<size_t>(i)] = 0;  // a row of zeros, and one of quotients halfway between two codes
          x[static_cast<size_t>(n + i)] =
              static_cast<float>(i % f.block == 0 ? limit : i % limit) + (i % f.block == 0 ? 0.0f : 0.5f);
        }
        std::vector<bf16> narrow;
        for (float& v : x) {
          narrow.emplace_back(v);
          if (t == DType::bf16) v = narrow.back();
        }
        std::vector<uint8_t> expected;
        for (const Backend* b : all_backends()) {
          CAPTURE(b->name);
          Device d(*b);
          const Tensor from = t == DType::bf16 ? d.filled(t, {kRows, n}, narrow) : d.filled(t, {kRows, n}, x);
          const Tensor packed = d.empty(DType::u8, {kRows, packed_bytes(f, n)}), y = d.empty(DType::f32, {kRows, n});
          d.ops().quantize({packed, from, f});
          d.ops().sum_quantized({y, packed.reshaped({1, kRows, packed_bytes(f, n)}), f});
          const std::vector<uint8_t> got = defined(d.bytes(packed), f, kRows, n);
          if (expected.empty()) expected = got;
          REQUIRE(got == expected);
          const std::vector<float> back = d.floats(y);
          for (int64_t row = 0; row < kRows; ++row) {
            const auto of_row = [&](const std::vector<float>& all) {
              const auto first = all.begin() + row * n;
              return rotated({first, first + n}, f);
            };
            const std::vector<float> sent = of_row(x), arrived = of_row(back);
            for (int64_t first = 0; first < n; first += f.block) {
              const auto begin = static_cast<size_t>(first), end = static_cast<size_t>(std::min(first + f.block, n));
              float largest = 0;
              for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(sent[i]));
              const double step = static_cast<double>(largest) / largest_code(f.bits);
              for (size_t i = begin; i < end; ++i)
                if (std::abs(arrived[i] - sent[i]) > step / 2 * (1 + 1e-4)) FAIL("element " << i << ": " << arrived[i]);
            }
          }
        }
      }
}

TEST_CASE("blocks with infinities or NaN are not finite afterwards, and others are as before") {
  constexpr int64_t kCount = 40;
  for (const Backend* b : all_backends())
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
      for (const int bits : {4, 8}) {
        CAPTURE(b->name, bad, bits);
        std::vector<float> x(kCount, 1.0f);
        x[12] = bad;
        const BlockFormat f{bits, 8};
        Device d(*b);
        const Tensor packed = d.empty(DType::u8, {1, packed_bytes(f, kCount)}), y = d.empty(DType::f32, {1, kCount});
        d.ops().quantize({packed, d.filled(DType::f32, {1, kCount}, x), f});
        const Tensor parts = packed.reshaped({1, 1, packed_bytes(f, kCount)});
        d.ops().sum_quantized({y, parts, f});
        const std::vector<float> back = d.floats(y);
        for (size_t i = 0; i < kCount; ++i) CHECK((i / 8 == 1 ? !std::isfinite(back[i]) : back[i] == 1.0f));
        const Tensor again = d.empty(DType::u8, {1, packed_bytes(f, kCount)});
        d.ops().requantize_sums({again, parts, kCount, f, f});
        d.ops().sum_quantized({y, again.reshaped(parts.shape), f});
        CHECK(!std::isfinite(d.floats(y)[12]));
      }
}

namespace {

// Returns a row of floats of one kind.
std::vector<float> strange_row(int kind, int64_t count, std::mt19937& random) {
  using Limits = std::numeric_limits<float>;
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-149, 127);
  const auto any_bits = [&] {
    const auto bits = static_cast<uint32_t>(random());
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  };
  std::vector<float> row;
  for (int64_t i = 0; i < count; ++i) switch (kind) {
      case 0:  // zeros of both signs
        row.push_back(random() % 2 == 0 ? 0.0f : -0.0f);
        break;
      case 1:  // subnormal numbers
        row.push_back(Limits::denorm_min() * static_cast<float>(static_cast<int>(random() % 2000) - 1000));
        break;
      case 2:  // the smallest normal numbers, which have subnormal scales
        row.push_back(Limits::min() * normal(random));
        break;
      case 3:  // numbers near the largest, which is more than a scale times its code may be
        row.push_back(Limits::max() * (random() % 2 == 0 ? 0.99f : -0.999f));
        break;
      case 4:  // all magnitudes
        row.push_back(std::exp2(exponent(random)) * (random() % 2 == 0 ? 1.0f : -1.0f));
        break;
      case 5:  // one number
        row.push_back(i == 0 ? normal(random) : row.front());
        break;
      default:  // any bits: infinities and NaN too
        row.push_back(any_bits());
    }
  return row;
}

// Equal bits, but that a NaN is equal to any other.
bool alike(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0; });
}

}  // namespace

TEST_CASE(
    "blocks of any floats are quantized with the oracle's bits, and finite ones are off by half a scale at most") {
  constexpr int kKinds = 8, kTries = 6;
  std::mt19937 random(9);
  for (int kind = 0; kind < kKinds; ++kind)
    for (int i = 0; i < kTries; ++i)
      for (const BlockFormat& f : {BlockFormat{4, 8}, {8, 8}, {4, 64}, {8, 256}, {4, 32, true}, {8, 64, true}}) {
        const auto n = static_cast<int64_t>(1 + random() % 300);
        const std::vector<float> x = strange_row(kind, n, random);
        CAPTURE(kind, i, n, f.bits, f.block, f.rotated);
        std::vector<float> expected, expected_again;
        for (const Backend* b : all_backends()) {
          CAPTURE(b->name);
          Device d(*b);
          const Tensor packed = d.empty(DType::u8, {1, packed_bytes(f, n)}), y = d.empty(DType::f32, {1, n}),
                       parts = packed.reshaped({1, 1, packed.cols()});
          d.ops().quantize({packed, d.filled(DType::f32, {1, n}, x), f});
          d.ops().sum_quantized({y, parts, f});
          const std::vector<float> back = d.floats(y);
          if (expected.empty()) expected = back;
          CHECK(alike(back, expected));
          const BlockFormat to{f.bits == 8 ? 4 : 8, 32, f.rotated};
          const Tensor again = d.empty(DType::u8, {1, packed_bytes(to, n)});
          d.ops().requantize_sums({again, parts, n, f, to});
          d.ops().sum_quantized({y, again.reshaped({1, 1, again.cols()}), to});
          if (expected_again.empty()) expected_again = d.floats(y);
          CHECK(alike(d.floats(y), expected_again));
        }
        if (f.rotated) continue;
        for (int64_t first = 0; first < n; first += f.block) {
          const auto begin = static_cast<size_t>(first), end = static_cast<size_t>(std::min(first + f.block, n));
          double largest = 0;
          bool finite = true;
          for (size_t k = begin; k < end; ++k) {
            finite = finite && std::isfinite(x[k]);
            largest = std::max(largest, std::abs(double{x[k]}));
          }
          // Scales are rounded, subnormal ones to multiples of the smallest.
          const double rounding = largest_code(f.bits) * double{std::numeric_limits<float>::denorm_min()},
                       bound = largest / largest_code(f.bits) / 2 * (1 + 1e-4) + rounding;
          for (size_t k = begin; k < end; ++k)
            if (finite ? !(std::abs(double{expected[k]} - x[k]) <= bound) : std::isfinite(expected[k]))
              FAIL("element " << k << ": " << expected[k] << " for " << x[k]);
        }
      }
}

TEST_CASE("sums of quantized rows, and sums quantized again, have the oracle's bits") {
  constexpr int64_t kParts = 3, kRows = 2;
  for (const int64_t n : {1, 300, 1030})
    for (const BlockFormat& f : kFormats) {
      const BlockFormat to{f.bits == 8 ? 4 : 8, 64, f.rotated};
      CAPTURE(n, f.bits, f.block);
      const std::vector<float> x = normals(kParts * kRows * n, 5), start = normals(kRows * n, 6);
      std::vector<float> expected, narrow_expected;
      std::vector<uint8_t> packed_expected;
      for (const Backend* b : all_backends()) {
        CAPTURE(b->name);
        Device d(*b);
        const Tensor parts = d.empty(DType::u8, {kParts, kRows, packed_bytes(f, n)});
        d.ops().quantize(
            {parts.reshaped({kParts * kRows, packed_bytes(f, n)}), d.filled(DType::f32, {kParts * kRows, n}, x), f});
        const Tensor y = d.filled(DType::f32, {kRows, n}, start), narrow = d.empty(DType::bf16, {kRows, n});
        d.ops().sum_quantized({y, parts, f, 0.3f, Write::add});
        d.ops().sum_quantized({narrow, parts, f, 1.0f / 6});
        d.ops().sum_quantized({narrow, parts, f, 0.7f, Write::add});
        const Tensor packed = d.empty(DType::u8, {kRows, packed_bytes(to, n)});
        d.ops().requantize_sums({packed, parts, n, f, to});
        const std::vector<float> sums = d.floats(y);
        const std::vector<uint8_t> bf16_sums = d.bytes(narrow), again = defined(d.bytes(packed), to, kRows, n);
        if (expected.empty()) {
          expected = sums;
          packed_expected = again;
          narrow_expected.assign(bf16_sums.begin(), bf16_sums.end());
        }
        CHECK(sums == expected);
        CHECK(again == packed_expected);
        CHECK(std::vector<float>(bf16_sums.begin(), bf16_sums.end()) == narrow_expected);
      }
    }
}

TEST_CASE("values that a format represents exactly survive two hops, in any order of rows") {
  constexpr int64_t kOuter = 3, kInner = 2, kCount = 66;
  const BlockFormat f{4, 32};
  for (const Backend* b : all_backends()) {
    CAPTURE(b->name);
    std::vector<float> x;  // multiples of 1/8 up to 7/8 in every block
    for (int64_t i = 0; i < kOuter * kInner * kCount; ++i)
      x.push_back(i % kCount % 32 == 0 ? 0.875f : 0.125f * static_cast<float>((i * 5 + i / kCount) % 15 - 7));
    Device d(*b);
    const Tensor packed = d.empty(DType::u8, {kOuter * kInner, packed_bytes(f, kCount)}),
                 y = d.empty(DType::f32, {kOuter * kInner, kCount});
    d.ops().quantize({packed, d.filled(DType::f32, {kOuter * kInner, kCount}, x), f, kInner});
    d.ops().sum_quantized({y, packed.reshaped({1, kOuter * kInner, packed_bytes(f, kCount)}), f});
    const std::vector<float> back = d.floats(y);
    for (int64_t outer = 0; outer < kOuter; ++outer)
      for (int64_t inner = 0; inner < kInner; ++inner)
        for (int64_t i = 0; i < kCount; ++i)
          REQUIRE(back[static_cast<size_t>((inner * kOuter + outer) * kCount + i)] ==
                  x[static_cast<size_t>((outer * kInner + inner) * kCount + i)]);
  }
}

TEST_CASE("a difference is quantized with the oracle's bits, and added to its base gives the values again") {
  constexpr int64_t kRows = 2, kCount = 300;
  const BlockFormat f{4, 64, true};
  for (const DType of_values : {DType::f32, DType::bf16})
    for (const DType of_base : {DType::f32, DType::bf16}) {
      std::vector<float> x = normals(kRows * kCount, 7), near;
      std::vector<bf16> narrow, narrow_x;
      for (float& v : x) {
        if (of_values == DType::bf16) v = bf16(v);
        narrow_x.emplace_back(v);
        narrow.emplace_back(v * (1 + 1.0f / 256)), near.push_back(narrow.back());
      }
      std::vector<uint8_t> expected;
      for (const Backend* b : all_backends()) {
        CAPTURE(b->name, name_of(of_values), name_of(of_base));
        Device d(*b);
        const auto tensor = [&](DType t, const std::vector<float>& wide, const std::vector<bf16>& rounded) {
          return t == DType::f32 ? d.filled(t, {kRows, kCount}, wide) : d.filled(t, {kRows, kCount}, rounded);
        };
        const Tensor y = tensor(DType::f32, near, narrow),
                     base = of_base == DType::f32 ? y : tensor(DType::bf16, near, narrow);
        const Tensor packed = d.empty(DType::u8, {kRows, packed_bytes(f, kCount)});
        d.ops().quantize({packed, tensor(of_values, x, narrow_x), f, 1, base});
        const std::vector<uint8_t> got = defined(d.bytes(packed), f, kRows, kCount);
        if (expected.empty()) expected = got;
        CHECK(got == expected);
        d.ops().sum_quantized({y, packed.reshaped({1, kRows, packed.cols()}), f, 1, Write::add});
        const std::vector<float> back = d.floats(y);
        // Differences are at most 2^-7 of 4; what is left of them is less than half a step for each of 32 elements.
        for (size_t i = 0; i < x.size(); ++i) REQUIRE(std::abs(back[i] - x[i]) < 0.008);
      }
    }
}

TEST_CASE("rotation keeps more of the other elements when one is an outlier") {
  constexpr int64_t kCount = 4096;
  std::vector<float> x = normals(kCount, 8);
  for (size_t i = 0; i < kCount; i += 128) x[i + i / 128 % 32] = 100;
  Device d(oracle());
  const auto error = [&](const BlockFormat& f) {
    const Tensor packed = d.empty(DType::u8, {1, packed_bytes(f, kCount)}), y = d.empty(DType::f32, {1, kCount});
    d.ops().quantize({packed, d.filled(DType::f32, {1, kCount}, x), f});
    d.ops().sum_quantized({y, packed.reshaped({1, 1, packed.cols()}), f});
    const std::vector<float> back = d.floats(y);
    double squares = 0;
    for (size_t i = 0; i < kCount; ++i)
      if (x[i] != 100) squares += (back[i] - x[i]) * (back[i] - x[i]);
    return std::sqrt(squares / kCount);
  };
  // A step is 100 / 7 without rotation, so all else is rounded to 0, and at most (100 + 4 * 31) / sqrt(32) / 7 with it.
  CHECK(error({4, 128}) > 0.9);
  CHECK(error({4, 128, true}) < 0.9 * error({4, 128}));
}

TEST_CASE("quantization refuses formats and shapes that are not its own") {
  Device d(oracle());
  const Tensor x = d.empty(DType::f32, {4, 100}), packed = d.empty(DType::u8, {4, packed_bytes({8, 8}, 100)});
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {5, 8}}), InternalError);
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 12}}), InternalError);
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 16384}}), InternalError);
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 16}}), InternalError);
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 8}, 3}), InternalError);
  CHECK_THROWS_AS(d.ops().sum_quantized({x, packed, {8, 8}}), InternalError);
  const Tensor narrow = d.empty(DType::bf16, {4, 100}), parts = packed.reshaped({1, 4, packed.cols()});
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 8, true}}), InternalError);
  CHECK_THROWS_AS(d.ops().quantize({packed, x, {8, 8}, 1, narrow.reshaped({2, 200})}), InternalError);
  CHECK_THROWS_AS(d.ops().requantize_sums({packed, parts, 100, {8, 32, true}, {8, 32}}), InternalError);
  CHECK_THROWS_AS(d.ops().requantize_sums({packed, parts, 0, {8, 8}, {8, 8}}), InternalError);
}
