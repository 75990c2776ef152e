// Whether a GPU can be used here at all.
#pragma once

#include <string>

namespace fp::cuda {

// Empty when device `index` of those visible to this process can run this binary, else why not, in one line. Touches no
// device beyond asking what it is.
std::string cuda_unavailable(int index = 0);

}  // namespace fp::cuda
