#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/shape.h"

using namespace fp;

TEST_CASE("user errors carry their exit code") {
  CHECK(static_cast<int>(ConfigError("x").code()) == 2);
  CHECK(static_cast<int>(DataError("x").code()) == 3);
  CHECK(static_cast<int>(DivergedError("x").code()) == 4);
  CHECK(static_cast<int>(ExitCode::interrupted) == 75);
  CHECK(std::string(DataError("shard 3 is cut short").what()) == "shard 3 is cut short");
}

TEST_CASE("the message of a failed check has its location, condition and values") {
  const int n = 3;
  try {
    FP_CHECK(n == 4, "n is {}", n);
    FAIL("FP_CHECK did not throw");
  } catch (const InternalError& e) {
    const std::string message = e.what();
    INFO(message);
    CHECK(message.find("n == 4") != std::string::npos);
    CHECK(message.find("n is 3") != std::string::npos);
    CHECK(message.find("test_error.cpp") != std::string::npos);
  }
}

TEST_CASE("shapes compare, count elements, print and refuse a sixth dimension") {
  const Shape s{2, 3, 5};
  CHECK(s.elements() == 30);
  CHECK(s.str() == "[2,3,5]");
  CHECK(s == Shape{2, 3, 5});
  CHECK_FALSE(s == Shape{2, 3});
  CHECK_FALSE(s == Shape{2, 3, 4});
  CHECK(Shape().elements() == 1);
  CHECK(Shape{4, 0}.elements() == 0);
  Shape grown = s;
  grown.push_back(7);
  CHECK(grown.elements() == 210);
  grown.push_back(1);
  CHECK_THROWS_AS(grown.push_back(1), InternalError);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6}), InternalError);
}
