// Schedules in the shorthand of papers: F B W D, pipe d or u, chunk a b c, micro-batch: "Fda0-2 Bdb0 Fd1&Du0".
#pragma once

#include <string>

#include "pipeline/schedule.h"

namespace fp::test {

// Returns a rank's list in shorthand, without ranges.
std::string short_hand(const fp::Schedule&, int rank);
// Expands ranges: "F0-2" becomes "F0 F1 F2".
std::string spread(const std::string& order);

}  // namespace fp::test
