// Which program this is.
#pragma once

#include <string>

namespace fp {

// What the linker has written into this program to tell it from any other, in hex; of one without that, the hash of its
// file.
std::string build_id();

}  // namespace fp
