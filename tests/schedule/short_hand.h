// Schedules in the short hand of papers: F B W D, pipe d or u, chunk a b c, micro-batch: "Fda0-2 Bdb0 Fd1&Du0".
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace fp_test {

// A rank's list, ranges written out.
std::string short_hand(const fp::Schedule&, int rank);
// "F0-2" as "F0 F1 F2".
std::string spread(const std::string& order);

}  // namespace fp_test
