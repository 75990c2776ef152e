// Skips a test that this machine cannot run: ctest shows it as skipped, never as passed.
#pragma once

#include <catch2/catch.hpp>
#include <string>

namespace fp::test {

// Records that the running test was skipped and prints the reason. Use FP_SKIP, which also leaves the test.
void mark_skipped(const std::string& reason);

}  // namespace fp::test

// In the body of a TEST_CASE: if (!have_tool) FP_SKIP("tool is not installed");
#define FP_SKIP(reason)               \
  do {                                \
    ::fp::test::mark_skipped(reason); \
    SUCCEED("skipped");               \
    return;                           \
  } while (false)
