// The limit of open files and connections of this process.
#pragma once

#include <cstdint>

namespace fp {

// Raises the limit of open descriptors to the administrator's hard limit, as the default of shells and batch systems is
// too low for a run of many ranks, each of which has connections beside its files. Returns the new limit.
int64_t allow_all_descriptors();

}  // namespace fp
