// Schedules as text: PyTorch's CSV format (a row per rank, a cell per action: 3F0, 2I1, 2W1, 1B4, (2F3;5B1)OVERLAP_F_B,
// 1SEND_F0, UNSHARD ...) with "u:" before the actions of the second pipe; and as pictures (text or SVG timelines).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/simulate.h"

namespace fp {

// Returns the CSV form of an action, such as "u:3F0". PyTorch's I is B here, and its B is D.
std::string to_text(const Action&);
std::string to_csv(const Schedule&);
// Parses CSV. Placement and micro-batches are read from a header comment line, or inferred from the cells if it is
// missing. `name` becomes the schedule's kind. Throws DataError with line and cell.
Schedule schedule_from_csv(const std::string& text, const std::string& name);
Schedule load_schedule(const std::filesystem::path&);

// Returns a timeline as text: a line per rank, a column per unit of time, labels with micro-batch numbers.
std::string text_timeline(const Schedule&, const Timing&);
// Returns a line that explains the labels of a schedule's text timeline.
std::string timeline_legend(const Schedule&);
// Returns a timeline as SVG: a row per rank, colours for kinds of action and chunks.
std::string svg_timeline(const Schedule&, const Timing&, const std::string& title);
// Returns several timings of one schedule as SVG, below each other on the same scale.
struct NamedTiming {
  std::string name;
  const Timing* timing = nullptr;
};
std::string svg_timelines(const Schedule&, const std::vector<NamedTiming>&, const std::string& title);

}  // namespace fp
