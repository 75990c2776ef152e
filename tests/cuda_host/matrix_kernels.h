// One product of a warp, for test_warp_matrix.cpp.
#pragma once

#include <string>

namespace fp::cuda::planted {

// c = a b by ldmatrix and mma; b lies in shared memory row by row (transposed: read by ldmatrix.trans) or column by
// column. Returns the layer's complaints.
std::string multiply(const float (&a)[16][16], const float (&b)[16][8], float (&c)[16][8], bool transposed);

}  // namespace fp::cuda::planted
