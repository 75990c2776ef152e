#include <catch2/catch.hpp>
#include <limits>

#include "train/first_loss.h"

using namespace fp;

TEST_CASE("the first loss after a resume is compared with the recorded one") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto suspicious = [](double loss, std::optional<double> before, double last) {
    return compare_first_loss(11, loss, before, last).value().suspicious;
  };
  CHECK_FALSE(suspicious(2.5, 2.5, kNan));
  CHECK_FALSE(suspicious(2.51, 2.5, 9.0));
  CHECK(suspicious(2.6, 2.5, 9.0));
  CHECK(suspicious(2.4, 2.5, 2.4));
  CHECK(suspicious(kNan, 2.5, 2.5));
  CHECK(suspicious(kNan, {}, 2.5));
  CHECK_FALSE(suspicious(2.9, {}, 2.5));
  CHECK_FALSE(suspicious(0.4, {}, 0.1));
  CHECK(suspicious(10.8, {}, 2.5));
  CHECK_FALSE(compare_first_loss(11, 2.5, {}, kNan));
  CHECK(compare_first_loss(11, 2.5, 2.5, kNan)->text == "step 11 again: loss 2.5, before 2.5 (0.0e+00 apart)");
}
