#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/dtype.h"

using fp::bf16;
using fp::DType;

namespace {

uint16_t bits_of(float x) { return bf16(x).bits; }
bf16 from_bits(uint16_t bits) {
  bf16 x;
  x.bits = bits;
  return x;
}

}  // namespace

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(bits_of(1.0f) == 0x3f80);
  CHECK(bits_of(1.0f + 0x1p-8f) == 0x3f80);             // tie: down to even
  CHECK(bits_of(1.0f + 0x3p-8f) == 0x3f82);             // tie: up to even
  CHECK(bits_of(1.0f + 0x1p-8f + 0x1p-23f) == 0x3f81);  // just above a tie
  CHECK(bits_of(1.0f + 0x3p-8f - 0x1p-23f) == 0x3f81);  // just below one
  CHECK(bits_of(-1.0f - 0x3p-8f) == 0xbf82);
  CHECK(bits_of(0x1.ffp0f) == 0x4000);  // carries into the exponent
}

TEST_CASE("bf16 keeps zeros, infinities, NaN and subnormals") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(bits_of(0.0f) == 0x0000);
  CHECK(bits_of(-0.0f) == 0x8000);
  CHECK(bits_of(infinity) == 0x7f80);
  CHECK(bits_of(-infinity) == 0xff80);
  CHECK(bits_of(std::numeric_limits<float>::max()) == 0x7f80);  // beyond the largest bf16: infinite
  CHECK(bits_of(0x1.fep127f) == 0x7f7f);
  CHECK(bits_of(0x1p-133f) == 0x0001);
  CHECK(bits_of(0x1p-135f) == 0x0000);
  // A NaN whose payload is only in the truncated bits must not become infinity.
  for (const uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7fc00000u}) {
    const bf16 x(std::bit_cast<float>(nan));
    CHECK(std::isnan(static_cast<float>(x)));
    CHECK(std::signbit(static_cast<float>(x)) == (nan >> 31 != 0));
  }
}

TEST_CASE("every bf16 value survives a round trip through float") {
  int changed = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 x = from_bits(static_cast<uint16_t>(bits));
    const float wide = x;
    const bf16 back(wide);
    // A signalling NaN may become quiet.
    if (std::isnan(wide) ? !std::isnan(static_cast<float>(back)) : back.bits != bits) ++changed;
  }
  CHECK(changed == 0);
}

TEST_CASE("rounding to bf16 picks the nearer neighbour") {
  // All floats between two bf16 values, sampled: never more than half a step away.
  double worst = 0.0;
  for (uint32_t low = 0; low < 0x10000; low += 7) {
    const float x = std::bit_cast<float>(0x3f800000u + low);
    worst = std::max(worst, std::abs(static_cast<double>(bf16(x)) - static_cast<double>(x)));
  }
  CHECK(worst <= fp::epsilon_of(DType::bf16) / 2);
  CHECK(worst > 0.49 * fp::epsilon_of(DType::bf16));
}

TEST_CASE("epsilon is the distance from 1 to the next value") {
  CHECK(static_cast<double>(from_bits(0x3f81)) - 1.0 == fp::epsilon_of(DType::bf16));
  CHECK(static_cast<double>(std::nextafter(1.0f, 2.0f)) - 1.0 == fp::epsilon_of(DType::f32));
}

TEST_CASE("data types have sizes and names") {
  CHECK(fp::size_of(DType::f32) == 4);
  CHECK(fp::size_of(DType::bf16) == 2);
  CHECK(fp::size_of(DType::i32) == 4);
  CHECK(fp::size_of(DType::u8) == 1);
  CHECK(fp::name_of(DType::f32) == "fp32");
  CHECK(fp::name_of(DType::bf16) == "bf16");
}
