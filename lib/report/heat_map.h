// Draws a table of shares, from 0 to 1, as a picture: the darker a cell, the greater its share.
#pragma once

#include <string>
#include <vector>

namespace fp {

struct HeatMap {
  std::string title, subtitle;
  std::string row_name, column_name;        // of the axes
  std::vector<std::string> rows, columns;   // labels
  std::vector<std::vector<double>> shares;  // by row and column
};

// Returns a complete SVG file.
std::string render_heat_map(const HeatMap&);

}  // namespace fp
