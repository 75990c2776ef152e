// Runs the suite of worlds on the ranks of mpirun.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "comm/backends.h"
#include "comm/values.h"

namespace fp_test {
namespace {

fp::World& mpi_world() {
  static const auto world = [] {
    const char* limit = std::getenv("FP_TEST_LARGEST_MESSAGE");
    return limit != nullptr ? fp::make_mpi_world(std::atoll(limit)) : fp::make_mpi_world();
  }();
  return *world;
}

}  // namespace

void run_worlds(const Body& body, Findings& findings) {
  body(mpi_world(), findings);
  everyone(mpi_world(), "end of test")->barrier();
}

}  // namespace fp_test
