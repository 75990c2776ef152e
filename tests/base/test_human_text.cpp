#include <catch2/catch.hpp>

#include "base/human_text.h"

using namespace fp;

TEST_CASE("numbers have three significant digits in plain notation") {
  CHECK(three_digits(0) == "0");
  CHECK(three_digits(0.04321) == "0.0432");
  CHECK(three_digits(1.005) == "1.00");
  CHECK(three_digits(13.5678) == "13.6");
  CHECK(three_digits(204.5) == "205");
  CHECK(three_digits(999.6) == "1,000");
  CHECK(three_digits(308260.939) == "308,000");
  CHECK(three_digits(-1234567) == "-1,230,000");
  CHECK(grouped(100000) == "100,000");
  CHECK(grouped(-123) == "-123");
  CHECK(grouped(1234567) == "1,234,567");
}

TEST_CASE("long lists are cut after five items") {
  CHECK(indented_lines({}).empty());
  CHECK(indented_lines({"a", "b"}) == "\n  a\n  b");
  CHECK(indented_lines({"1", "2", "3", "4", "5"}) == "\n  1\n  2\n  3\n  4\n  5");
  CHECK(indented_lines(std::vector<std::string>(185, "x")) == "\n  x\n  x\n  x\n  x\n  x\n  ... and 180 more");
}
