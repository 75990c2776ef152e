#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "base/philox.h"

using fp::Philox;
using fp::Purpose;

TEST_CASE("philox4x32-10 reproduces the published test vectors") {
  // Random123's kat_vectors.
  constexpr uint32_t kOnes = 0xffffffffu;
  CHECK(Philox::block({0, 0, 0, 0}, {0, 0}) == Philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox::block({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("uniform numbers lie strictly between 0 and 1") {
  CHECK(Philox::uniform(0) == 0x1p-25f);
  CHECK(Philox::uniform(0xffffffffu) < 1.0f);
  CHECK(Philox::uniform(0x80000000u) == Approx(0.5));
}

TEST_CASE("normal numbers have mean 0, variance 1 and normal tails") {
  const Philox::Key key = Philox::key(3, Purpose::init);
  const int n = 100000;
  double sum = 0.0, squares = 0.0;
  int beyond_two = 0;
  for (int i = 0; i < n / 2; ++i) {
    const auto words = Philox::block({static_cast<uint32_t>(i), 0, 0, 0}, key);
    for (const float x : Philox::normal(words[0], words[1])) {
      REQUIRE(std::isfinite(x));
      sum += x;
      squares += static_cast<double>(x) * x;
      beyond_two += std::abs(x) > 2.0f;
    }
  }
  // Five standard errors each; 4.55% of a normal distribution lies beyond two.
  CHECK(std::abs(sum / n) < 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1.0) < 5 * std::sqrt(2.0 / n));
  CHECK(std::abs(beyond_two / static_cast<double>(n) - 0.0455) < 5 * std::sqrt(0.0455 * 0.9545 / n));
  const auto extreme = Philox::normal(0, 0);
  CHECK(std::isfinite(extreme[0]));
}

TEST_CASE("seeds and purposes and names have distinct keys") {
  std::set<Philox::Key> keys;
  for (uint64_t seed : {0ull, 1ull, 1234ull, 1ull << 55})
    for (uint32_t purpose = 1; purpose <= 10; ++purpose) keys.insert(Philox::key(seed, static_cast<Purpose>(purpose)));
  CHECK(keys.size() == 40);
  CHECK(Philox::name_id("layers.0.wq") != Philox::name_id("layers.1.wq"));
  CHECK(Philox::name_id("") != 0);
}

TEST_CASE("the random stream never changes") {
  // Frozen: a change here changes the initial weights and dropout masks of every run spec.
  CHECK(Philox::mix(0) == 0xe220a8397b1dcdafull);
  CHECK(static_cast<uint32_t>(Purpose::init) == 1);
  CHECK(static_cast<uint32_t>(Purpose::dataset_mix) == 9);
}
