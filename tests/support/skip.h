// Skipping a test whose means are missing on this machine: ctest shows it as skipped, never as passed.
#pragma once

#include <catch2/catch.hpp>
#include <string>

namespace fp_test {

// Notes that the running test was skipped and prints why. Use FP_SKIP, which also leaves the test.
void mark_skipped(const std::string& reason);

}  // namespace fp_test

// In the body of a TEST_CASE: if (!have_tool) FP_SKIP("tool is not installed");
#define FP_SKIP(reason)              \
  do {                               \
    ::fp_test::mark_skipped(reason); \
    SUCCEED("skipped");              \
    return;                          \
  } while (false)
