// What `fptrain bench schedule` found, as pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/schedule_benchmark.h"

namespace fp {

struct MeasuredSchedule {
  std::string name;  // the kind, "+W" when its weight gradients were split off
  Schedule schedule;
  ScheduleTimes times;
};

// bubbles.svg: simulated and executed; and of each schedule NAME-RANKS.svg: its passes, simulated above executed.
void draw_schedules(const std::vector<MeasuredSchedule>&, const std::filesystem::path& folder);

}  // namespace fp
