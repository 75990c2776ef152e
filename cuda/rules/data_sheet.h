// What data sheets promise: the yardstick of MFU.
#pragma once

#include <string>

#include "base/dtype.h"

namespace fp::cuda {

// Dense FLOP/s of matrix products in this type on a GPU of this name (as the driver spells it): bf16 on tensor cores,
// fp32 without TF32. 0: a GPU that is not in the table.
double data_sheet_flops(const std::string& gpu, DType compute);

}  // namespace fp::cuda
