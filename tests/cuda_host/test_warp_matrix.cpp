// mma and ldmatrix of the layer against plain loops, on matrices in which no two elements are equal.
#include <catch2/catch.hpp>

#include "cuda_host/matrix_kernels.h"

using namespace fp::cuda::planted;

TEST_CASE("ldmatrix and mma compute a matrix product") {
  float a[16][16], b[16][8], c[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) a[i][k] = static_cast<float>(i * 16 + k - 100);
    for (int j = 0; j < 8; ++j) b[i][j] = static_cast<float>(i - 3 * j);
  }
  for (const bool transposed : {false, true}) {
    INFO((transposed ? "b read by ldmatrix.trans" : "b stored as columns"));
    CHECK(multiply(a, b, c, transposed) == "");
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) sum += a[i][k] * b[k][j];
        CHECK(c[i][j] == sum);
      }
  }
}
