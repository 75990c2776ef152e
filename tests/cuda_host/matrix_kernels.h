// A matrix product by one warp, for test_warp_matrix.cpp.
#pragma once

#include <string>

namespace fp::cuda::planted {

// Computes c = a b by ldmatrix and mma. b is stored in shared memory by rows (transposed: read by ldmatrix.trans) or by
// columns. Returns the problems that the layer reports.
std::string multiply(const float (&a)[16][16], const float (&b)[16][8], float (&c)[16][8], bool transposed);

}  // namespace fp::cuda::planted
