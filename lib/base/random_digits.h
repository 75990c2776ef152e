// Unpredictable names and tokens.
#pragma once

#include <string>

namespace fp {

// Returns 128 bits from the kernel's random number generator (getrandom) as 32 hex digits. No two calls return the same
// text, whatever the process or host.
std::string random_digits();

}  // namespace fp
