#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "interop/element.h"

using namespace fp;

namespace {

float decode(ElementType type, uint16_t bits) {
  float x = 0;
  to_floats(type, std::as_bytes(std::span(&bits, 1)), std::span(&x, 1));
  return x;
}

uint16_t encode(ElementType type, float x) {
  uint16_t bits = 0;
  from_floats(type, std::span(&x, 1), std::as_writable_bytes(std::span(&bits, 1)));
  return bits;
}

}  // namespace

TEST_CASE("every half and bfloat16 round-trips through fp32", "[element]") {
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    int changed = 0;
    for (uint32_t bits = 0; bits < 65536; ++bits)
      if (encode(type, decode(type, static_cast<uint16_t>(bits))) != bits) ++changed;
    CHECK(changed == 0);
  }
}

TEST_CASE("known halves convert to the right values", "[element]") {
  CHECK(decode(ElementType::f16, 0x3C00) == 1.0f);
  CHECK(decode(ElementType::f16, 0xC000) == -2.0f);
  CHECK(decode(ElementType::f16, 0x7BFF) == 65504.0f);
  CHECK(decode(ElementType::f16, 0x0001) == 0x1p-24f);
  CHECK(decode(ElementType::f16, 0x03FF) == 1023 * 0x1p-24f);
  CHECK(decode(ElementType::f16, 0x0400) == 0x1p-14f);
  CHECK(std::isinf(decode(ElementType::f16, 0x7C00)));
  CHECK(std::signbit(decode(ElementType::f16, 0x8000)));
}

TEST_CASE("rounding to a half is to the nearest, ties to even", "[element]") {
  // Between every pair of neighbours: the midpoint rounds to even, values just beside it to the nearer neighbour.
  int wrong = 0;
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto next = static_cast<uint16_t>(bits + 1);
    const float low = decode(ElementType::f16, bits), high = decode(ElementType::f16, next), middle = (low + high) / 2;
    if (encode(ElementType::f16, middle) != (bits % 2 == 0 ? bits : next)) ++wrong;
    if (encode(ElementType::f16, std::nextafter(middle, 0.0f)) != bits) ++wrong;
    if (encode(ElementType::f16, std::nextafter(middle, 1e9f)) != next) ++wrong;
    if (encode(ElementType::f16, -middle) != (encode(ElementType::f16, middle) | 0x8000u)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("values that overflow a format are counted", "[element]") {
  const std::vector<float> values = {65504.0f, 65519.99f, 65520.0f, -1e30f, std::numeric_limits<float>::infinity(),
                                     NAN};
  std::vector<std::byte> out(values.size() * 2);
  CHECK(from_floats(ElementType::f16, values, out) == 2);
  CHECK(from_floats(ElementType::bf16, values, out) == 0);
  const float largest = std::numeric_limits<float>::max();
  CHECK(from_floats(ElementType::bf16, std::span(&largest, 1), std::span(out).first(2)) == 1);
}
