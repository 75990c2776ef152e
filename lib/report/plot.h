// Line plots as SVG. Colours come from CSS classes, so that one drawing serves light and dark pages.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fp {

// How values are written on an axis and in a legend.
enum class NumberFormat { plain, count, percent, gibibytes, scientific, milliseconds };
std::string format_number(double value, NumberFormat format);  // five digits
std::string format_tick(double value, NumberFormat format);    // as short as a round number can be

struct AxisRange {
  double low = 0, high = 1;
};

struct Curve {
  std::string key;                      // names the values in the page's data
  std::string label;                    // in the legend
  std::string style;                    // CSS class that sets the colour
  std::vector<double> x, y;             // not finite: a gap
  std::vector<double> low, high;        // optional band behind the line, aligned with x
  bool dots = false;                    // mark each point
  bool faint = false;                   // background line: does not set the range of the axis beyond its bulk
  std::optional<NumberFormat> readout;  // not drawn at all: only its value is told, in this format
};

struct Plot {
  std::string title;
  NumberFormat format = NumberFormat::plain;
  bool from_zero = false;  // the y axis begins at 0
  std::vector<Curve> curves;
  std::optional<AxisRange> x;  // of the x axis; default: the curves' extent
  std::vector<double> marks;   // vertical dotted lines
  std::string marks_label;
  std::optional<double> limit;  // horizontal line
  std::string limit_label;
  // A right-hand axis whose value is always `right_ratio` times the left one's.
  double right_ratio = 0;
  NumberFormat right_format = NumberFormat::percent;
  double width = 560, height = 240;
};

// Round numbers inside a range: about `count` of 1, 2 or 5 times a power of ten.
std::vector<double> linear_ticks(AxisRange range, int count);
// Powers of ten, with 2 and 5 times them where there is room.
std::vector<double> log_ticks(AxisRange range);

// Everything needed to place a value; the page's script reads it from data attributes.
struct PlotFrame {
  double left = 0, top = 0, width = 0, height = 0;  // of the plotting area
  AxisRange x, y;
  bool log_x = false;
  double at_x(double value) const;  // pixels
  double at_y(double value) const;
};
PlotFrame frame_of(const Plot& plot, bool log_x);

// One <svg> element (no name space: for HTML) with class `css_class`. It is well-formed XML.
std::string render_svg(const Plot& plot, bool log_x, const std::string& css_class);

// The same drawing with caption, legend and colours of its own: a whole SVG file.
std::string render_svg_file(const Plot& plot, const std::string& title, const std::string& subtitle);

}  // namespace fp
