// The runtime on the machine at hand, with or without a GPU.
#include <catch2/catch.hpp>

#include "support/skip.h"

#ifdef FP_HAS_CUDA

#include "base/error.h"
#include "cuda/runtime/available.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/library.h"

using namespace fp;
using namespace fp::cuda;

TEST_CASE("a GPU that cannot be used is a configuration error with its reason in one line") {
  const std::string reason = cuda_unavailable();
  CHECK(reason.find('\n') == std::string::npos);
  if (reason.empty()) FP_SKIP("this machine has a GPU");
  CHECK_THROWS_WITH(Device(0), Catch::Contains(reason));
  CHECK_THROWS_AS(Device(0), ConfigError);
}

TEST_CASE("the CUDA libraries have the functions that fptrain calls") {
  try {
    CHECK(cublas_lt().cublasLtMatmul != nullptr);
    CHECK(cudnn().cudnnBackendExecute != nullptr);
  } catch (const ConfigError& missing) {
    FP_SKIP(missing.what());
  }
}

#else

TEST_CASE("the CUDA runtime works on this machine") { FP_SKIP("built without CUDA"); }

#endif
