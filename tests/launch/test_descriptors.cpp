#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "launch/descriptors.h"

TEST_CASE("the limit of open files is raised to the hard limit") {
  rlimit before{}, after{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  fp::allow_all_descriptors();
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur == before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}
