// Which program this is.
#pragma once

#include <string>

namespace fp {

// The GNU build id of this executable, in hex; the hash of its file where the linker wrote none.
std::string build_id();

}  // namespace fp
