#include <catch2/catch.hpp>

#include "host/build_id.h"

TEST_CASE("the build id is hexadecimal and stable") {
  const std::string id = fp::build_id();
  CHECK(id.size() >= 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(id == fp::build_id());
}
