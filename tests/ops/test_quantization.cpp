// Quantized messages: the bits of the oracle on every backend, and what the formats promise.
#include <catch2/catch.hpp>
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

const std::vector<BlockFormat> kFormats{{8, 256}, {4, 256}, {8, 8}, {4, 8}, {4, 40}, {8, 1000}};

}  // namespace

TEST_CASE("quantized rows have the oracle's bits, and elements are off by half a scale at most") {
  constexpr int64_t kRows = 6;
  for (const int64_t n : {1, 7, 256, 1030})
    for (const BlockFormat& f : kFormats)
      for (const DType t : {DType::f32, DType::bf16}) {
        CAPTURE(n, f.bits, f.block, name_of(t));
        std::vector<float> x = normals(kRows * n, static_cast<unsigned>(n));
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) x[i] = 0;  // a row of zeros
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
          for (int64_t i = 0; i < kRows * n; ++i) {
            const int64_t row = i / n, block = i % n / f.block, first = row * n + block * f.block;
            float largest = 0;
            for (int64_t k = first; k < std::min(first + f.block, (row + 1) * n); ++k)
              largest = std::max(largest, std::abs(x[static_cast<size_t>(k)]));
            const auto at = static_cast<size_t>(i);
            const double step = static_cast<double>(largest) / largest_code(f.bits);
            if (std::abs(back[at] - x[at]) > step / 2 * (1 + 1e-5)) FAIL("element " << i << ": " << back[at]);
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

TEST_CASE("sums of quantized rows, and sums quantized again, have the oracle's bits") {
  constexpr int64_t kParts = 3, kRows = 2;
  for (const int64_t n : {1, 300, 1030})
    for (const BlockFormat& f : kFormats) {
      const BlockFormat to{f.bits == 8 ? 4 : 8, 64};
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
  CHECK_THROWS_AS(d.ops().sum_quantized({narrow, parts, {8, 8}, 1, Write::add}), InternalError);
  CHECK_THROWS_AS(d.ops().requantize_sums({packed, parts, 0, {8, 8}, {8, 8}}), InternalError);
}
