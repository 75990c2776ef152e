// Checks whether a GPU can be used by this process.
#pragma once

#include <string>

namespace fp::cuda {

// Returns an empty string when device `index` of those visible to this process can run this binary, else the reason in
// one line. Only queries the device's properties.
std::string cuda_unavailable(int index = 0);

}  // namespace fp::cuda
