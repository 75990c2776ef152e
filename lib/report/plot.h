// Draws line plots as SVG. Colours come from CSS classes, so that one drawing serves light and dark pages.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fp {

// How values are formatted on axes and in legends.
enum class NumberFormat { plain, count, percent, gibibytes, scientific, milliseconds };
// Returns the value with its unit and at most five significant digits.
std::string format_number(double value, NumberFormat format);
// Returns the shortest text of a round number, for axis ticks.
std::string format_tick(double value, NumberFormat format);

struct AxisRange {
  double low = 0, high = 1;
};

struct Curve {
  std::string key;                      // name of the values in the page's data
  std::string label;                    // legend text
  std::string style;                    // CSS class that sets the colour
  std::vector<double> x, y;             // values that are not finite leave gaps
  std::vector<double> low, high;        // optional band behind the line, aligned with x
  bool dots = false;                    // mark each point
  bool faint = false;                   // background line: its outliers do not extend the axis
  std::optional<NumberFormat> readout;  // not drawn: only its value is shown, in this format
};

struct Plot {
  std::string title;
  NumberFormat format = NumberFormat::plain;
  bool from_zero = false;  // the y axis starts at 0
  bool over_steps =
      true;  // false: x is another quantity, drawn on a logarithmic axis, and the page shows no values of x
  std::vector<Curve> curves;
  std::optional<AxisRange> x;  // range of the x axis; default: that of the curves
  std::vector<double> marks;   // vertical dotted lines
  std::string marks_label;
  std::optional<double> limit;  // horizontal line
  std::string limit_label;
  // A right-hand axis whose value is always `right_ratio` times the left one's.
  double right_ratio = 0;
  NumberFormat right_format = NumberFormat::percent;
  double width = 560, height = 240;
};

// Returns about `count` tick values inside a range, spaced by 1, 2 or 5 times a power of ten. Empty if the range is
// empty, not finite, or so far from 0 that doubles cannot represent the spacing.
std::vector<double> linear_ticks(AxisRange range, int count);
// Returns the powers of ten in a range, with 2 and 5 times them if there are few. Empty unless the range is positive
// and finite.
std::vector<double> log_ticks(AxisRange range);

// Maps values to pixels; the page's script reads the same fields from data attributes.
struct PlotFrame {
  double left = 0, top = 0, width = 0, height = 0;  // plotting area in pixels
  AxisRange x, y;
  bool log_x = false;
  // Return the pixel coordinate of a value.
  double at_x(double value) const;
  double at_y(double value) const;
};
PlotFrame frame_of(const Plot& plot, bool log_x);

// Returns one <svg> element with class `css_class`, without a name space, for use in HTML. It is well-formed XML.
std::string render_svg(const Plot& plot, bool log_x, const std::string& css_class);

// Returns the same drawing as a complete SVG file with caption, legend and colours.
std::string render_svg_file(const Plot& plot, const std::string& title, const std::string& subtitle);

}  // namespace fp
