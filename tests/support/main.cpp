// The main() of every test executable: Catch2's, with exit codes that ctest can trust. Catch2 2 returns the number of
// failed assertions, and 0 when a name selects no test; here any failure is 1, a skip is 4, and a run without a test or
// a test without an assertion is a failure.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "support/skip.h"

namespace fp::test {
namespace {
bool skipped = false;
}

void mark_skipped(const std::string& reason) {
  skipped = true;
  Catch::cout() << "SKIPPED: " << reason << std::endl;
}

}  // namespace fp::test

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int usage_error = session.applyCommandLine(argc, argv)) return usage_error;
  Catch::ConfigData& config = session.configData();
  config.warnings =
      static_cast<Catch::WarnAbout::What>(config.warnings | Catch::WarnAbout::NoTests | Catch::WarnAbout::NoAssertions);
  const bool listing = config.listTests || config.listTags || config.listReporters || config.listTestNamesOnly;
  const int result = session.run();
  // catch_discover_tests takes a count of 0 for a mistake; a folder without [slow] tests is none.
  if (listing) return result == 0 ? 1 : result;
  if (result != 0) return 1;
  return fp::test::skipped ? 4 : 0;
}
