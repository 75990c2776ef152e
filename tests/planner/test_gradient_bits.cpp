// The usual error of quantized gradients is that of random ones.
#include <catch2/catch.hpp>
#include <random>

#include "ops/backends.h"
#include "planner/gradient_bits.h"

using namespace fp;

namespace {

// Returns the mean of min(1, |quantized - exact| / |exact|) of elements drawn from a normal distribution.
double measured_error(const BlockFormat& f, std::mt19937_64& random) {
  const auto ops = make_ref_ops();
  const int64_t count = 64 * f.block;
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> x(static_cast<size_t>(count)), y(x.size());
  for (float& v : x) v = normal(random);
  std::vector<std::byte> bytes(static_cast<size_t>(packed_bytes(f, count)));
  const Tensor packed{bytes.data(), DType::u8, {1, packed_bytes(f, count)}};
  const Tensor from{x.data(), DType::f32, {1, count}}, to{y.data(), DType::f32, {1, count}};
  ops->quantize({packed, from, f});
  ops->sum_quantized({to, packed.reshaped({1, 1, packed.cols()}), f});
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != 0) sum += std::min(1.0, std::abs(double{y[i]} - x[i]) / std::abs(double{x[i]}));
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("the usual error of quantized gradients is that of normal ones within 15 %", "[planner]") {
  std::mt19937_64 random(5);
  for (const int bits : {4, 8})
    for (const int64_t block : {32, 256, 2048})
      for (const bool rotated : {false, true}) {
        const BlockFormat f{bits, block, rotated};
        CAPTURE(bits, block, rotated);
        CHECK(usual_error(f) == Approx(measured_error(f, random)).epsilon(0.15));
      }
}
