// The execution layer itself: it reports planted errors, and nothing for the same kernels without them.
#include <catch2/catch.hpp>
#include <vector>

#include "cuda_host/execution.h"
#include "cuda_host/planted.h"

using namespace fp::cuda::host;
using namespace fp::cuda::planted;

namespace {

void finds(const std::string& kernel, int n, const std::string& problem) {
  INFO(kernel);
  const std::string found = run_planted(kernel, n);
  INFO(found);
  CHECK(found.find(problem) != std::string::npos);
}

}  // namespace

TEST_CASE("correct kernels pass") {
  for (const char* kernel : {"reverse", "scale", "blocks", "neighbour", "barrier for all", "written first",
                             "async copy", "aligned vector", "sum in any order"}) {
    INFO(kernel);
    for (const int n : {4, 64, 128}) CHECK(run_planted(kernel, n) == "");
  }
}

TEST_CASE("a missing barrier is reported as a race") {
  finds("reverse without barrier", 128, "race");
  finds("neighbour without syncwarp", 128, "race");
}

TEST_CASE("an off-by-one is reported as an access out of bounds") {
  finds("scale off by one", 100, "access out of bounds: read of");
  finds("scale off by one", 100, "past a buffer of 400");
  finds("scale off by one", 100, "scale_kernel");
}

TEST_CASE("blocks that write the same memory are reported as a race") {
  finds("blocks that write the same", 64, "race");
}

TEST_CASE("barriers and shuffles that not all threads reach are reported as divergence") {
  finds("barrier for half", 64, "64 of 128 threads wait for ever");
  finds("shuffle after early exit", 50, "divergence");
  CHECK(run_planted("reverse", 128) == "");  // the layer has recovered
}

TEST_CASE("reads of unwritten memory are reported, also before an asynchronous copy has arrived") {
  finds("never written", 64, "read of memory that nothing wrote");
  finds("async copy without wait", 64, "read of memory that nothing wrote");
  finds("async copy without wait", 64, "asynchronous copy: never waited for");
}

TEST_CASE("a misaligned vector access is reported") { finds("misaligned vector", 64, "misaligned access"); }

TEST_CASE("a sum that depends on the thread order differs between orders") {
  std::vector<float> first(128), other(128);
  run_planted("sum in any order", 128, first.data());
  bool differs = false;
  for (int i = 0; i < 20 && !differs; ++i) {
    run_planted("sum in any order", 128, other.data());
    differs = first[0] != other[0];
  }
  CHECK(differs);
}
