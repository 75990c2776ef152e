// Identifies the build of this program.
#pragma once

#include <string>

namespace fp {

// Returns the GNU build id of this executable in hex; the hash of its file if the linker wrote none.
std::string build_id();

}  // namespace fp
