// Schedules as text: PyTorch's CSV (a row a rank, a cell an action: 3F0, 2I1, 2W1, 1B4, (2F3;5B1)OVERLAP_F_B, 1SEND_F0,
// UNSHARD ...) with "u:" before the actions of the second pipe; and as pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schedule/simulate.h"

namespace fp {

// "u:3F0". PyTorch's I is B here, its B is D.
std::string to_text(const Action&);
std::string to_csv(const Schedule&);
// A header comment line gives what the cells do not (placement, micro-batches); without it they are inferred from the
// cells. DataError with line and cell.
Schedule schedule_from_csv(const std::string& text, const std::string& name);
Schedule load_schedule(const std::filesystem::path&);

// A line a rank, a column a unit of time: micro-batch numbers in the cells.
std::string text_timeline(const Schedule&, const Timing&);
// As papers draw them: rows are ranks, colours are kinds of action and chunks.
std::string svg_timeline(const Schedule&, const Timing&, const std::string& title);
// Several runs of a schedule, below each other on one scale.
struct NamedTiming {
  std::string name;
  const Timing* timing = nullptr;
};
std::string svg_timelines(const Schedule&, const std::vector<NamedTiming>&, const std::string& title);

}  // namespace fp
