#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "base/memory_error.h"

using namespace fp;
using Catch::Matchers::Contains;

TEST_CASE("a failed allocation is an error that names its purpose") {
  const auto what = [] { return std::string("corpus.txt:7"); };
  CHECK(with_memory_for(4, what, [] { return 7; }) == 7);
  const auto refuse = []() -> int { throw std::bad_alloc(); };
  CHECK_THROWS_WITH(with_memory_for(1048576, what, refuse),
                    "corpus.txt:7: out of memory: 1048576 bytes were requested");
  try {
    with_memory_for(1, what, refuse);
  } catch (const UserError& e) {
    CHECK(e.code() == ExitCode::infrastructure);
    CHECK(dynamic_cast<const DataError*>(&e) == nullptr);  // the data are not at fault
  }
  CHECK_THAT(out_of_memory("in phase 'step', step 12"), Contains("out of memory in phase 'step', step 12:"));
}
