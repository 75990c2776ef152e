#include <catch2/catch.hpp>

#include "base/build_id.h"

TEST_CASE("a program has an id, in hex, that stays the same") {
  const std::string id = fp::build_id();
  CHECK(id.size() >= 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(id == fp::build_id());
}
