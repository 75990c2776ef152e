// Draws the results of `fptrain bench schedule`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/schedule_benchmark.h"

namespace fp {

struct MeasuredSchedule {
  std::string name;  // the kind, with "+W" if weight gradients are split off
  Schedule schedule;
  ScheduleTimes times;
};

// Writes bubbles.svg, with simulated and executed bubbles, and for each schedule NAME-RANKS.svg, with its simulated
// passes above the executed ones.
void draw_schedules(const std::vector<MeasuredSchedule>&, const std::filesystem::path& folder);

}  // namespace fp
