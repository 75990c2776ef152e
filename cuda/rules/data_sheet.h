// Peak FLOP/s of GPUs according to their data sheets, the reference of MFU.
#pragma once

#include <string>

#include "base/dtype.h"

namespace fp::cuda {

// Returns the dense FLOP/s of matrix products in this type on the GPU named `gpu` (as the driver spells it): bf16 on
// tensor cores, fp32 without TF32. 0: the GPU is not in the table.
double data_sheet_flops(const std::string& gpu, DType compute);

}  // namespace fp::cuda
