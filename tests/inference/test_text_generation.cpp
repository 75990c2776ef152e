#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "base/error.h"
#include "inference/text_generation.h"

using namespace fp;

TEST_CASE("logits of a broken model are refused with their position") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    SamplingOptions o;
    o.temperature = temperature;
    for (const std::vector<float>& logits : {std::vector<float>{1, nan, 0}, {nan, nan}, {0, infinity}, {-infinity}})
      CHECK_THROWS_AS(sample_token(logits, o, 7), DataError);
    CHECK(sample_token(std::vector<float>{-infinity, 3}, o, 7) == 1);
  }
}

TEST_CASE("sampling follows temperature, top-k and top-p", "[train]") {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, -inf, 2.0f};
  SamplingOptions o;
  o.temperature = 0;
  CHECK(sample_token(logits, o, 0) == 1);  // ties go to the lower id
  const auto drawn = [&] {
    std::vector<int> counts(logits.size(), 0);
    for (int64_t i = 0; i < 4000; ++i) ++counts[static_cast<size_t>(sample_token(logits, o, i))];
    return counts;
  };
  SECTION("plain") {
    o.temperature = 1;
    const auto c = drawn();
    const double sum = 1 + 2 * std::exp(2.0) + std::exp(1.0);
    CHECK(c[3] == 0);
    CHECK(c[0] == Approx(4000 / sum).margin(60));
    CHECK(c[1] == Approx(4000 * std::exp(2.0) / sum).margin(160));
  }
  SECTION("top-k") {
    o.temperature = 1;
    o.top_k = 2;
    const auto c = drawn();
    CHECK(c[1] + c[4] == 4000);
    CHECK(c[1] == Approx(2000).margin(160));
  }
  SECTION("top-p keeps the fewest that reach it") {
    o.temperature = 1;
    o.top_p = 0.75;  // the two likeliest have 0.40 each
    const auto c = drawn();
    CHECK(c[1] + c[4] == 4000);
    o.top_p = 0.3;
    CHECK(drawn()[1] == 4000);
  }
  SECTION("a pure function of seed and position") {
    o.temperature = 1;
    std::set<int32_t> seen;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      o.seed = seed;
      CHECK(sample_token(logits, o, 5) == sample_token(logits, o, 5));
      seen.insert(sample_token(logits, o, 5));
    }
    CHECK(seen.size() > 1);
  }
}
