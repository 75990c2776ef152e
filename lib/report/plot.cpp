#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/human_text.h"
#include "base/markup.h"
#include "report/report_style.h"

namespace fp {
namespace {

constexpr double kLeft = 52, kRight = 14, kTop = 10, kBottom = 26, kTickSpacing = 36;

// Returns a quantile of the values.
double quantile(std::vector<double>& values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

// The range includes all values of lines, but only the 1 % to 99 % quantiles of faint lines and bands.
AxisRange y_range(const Plot& plot) {
  AxisRange range{INFINITY, -INFINITY};
  const auto include = [&](double value) {
    if (!std::isfinite(value)) return;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  };
  for (const Curve& c : plot.curves) {
    if (c.readout) continue;
    std::vector<double> bulk;
    for (const auto* values : {&c.low, &c.high, &c.y})
      for (const double v : *values)
        if (std::isfinite(v)) bulk.push_back(v);
    if (!c.faint) std::for_each(c.y.begin(), c.y.end(), include);
    if (bulk.empty()) continue;
    include(quantile(bulk, 0.01));
    include(quantile(bulk, 0.99));
  }
  if (plot.limit) include(*plot.limit);
  if (!(range.low <= range.high)) return {0, 1};
  if (plot.from_zero) range.low = std::min(range.low, 0.0);
  double margin = 0.06 * (range.high - range.low);
  if (margin == 0) margin = range.high != 0 ? 0.1 * std::abs(range.high) : 1;
  return {plot.from_zero && range.low == 0 ? 0 : range.low - margin, range.high + margin};
}

AxisRange x_range(const Plot& plot, bool log_x) {
  AxisRange range = plot.x.value_or(AxisRange{INFINITY, -INFINITY});
  for (const Curve& c : plot.curves)
    for (const double x : c.x) range = {std::min(range.low, x), std::max(range.high, x)};
  if (!(range.low <= range.high)) return {log_x ? 1.0 : 0.0, log_x ? 10.0 : 1.0};
  if (log_x) range = {std::max(range.low, 1.0), std::max(range.high, 1.0)};
  if (range.low == range.high)
    return log_x ? AxisRange{range.low, range.low * 10} : AxisRange{range.low - 1, range.low + 1};
  return range;
}

std::string point(const PlotFrame& f, double x, double y) {
  // Points far outside the clip region are clamped, which keeps the numbers short.
  return fmt::format("{:.1f} {:.1f}", f.at_x(x), std::clamp(f.at_y(y), -4000.0, 4000.0));
}

std::string line_path(const PlotFrame& f, const std::vector<double>& x, const std::vector<double>& y) {
  std::string path;
  bool pen_down = false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(y[i])) {
      pen_down = false;
      continue;
    }
    path += (pen_down ? "L" : "M") + point(f, x[i], y[i]);
    pen_down = true;
  }
  return path;
}

std::string band_path(const PlotFrame& f, const Curve& c) {
  std::string path;
  for (size_t begin = 0; begin < c.x.size();) {
    size_t end = begin;
    while (end < c.x.size() && std::isfinite(c.low[end]) && std::isfinite(c.high[end])) ++end;
    for (size_t i = begin; i < end; ++i) path += (i == begin ? "M" : "L") + point(f, c.x[i], c.high[i]);
    for (size_t i = end; i > begin; --i) path += "L" + point(f, c.x[i - 1], c.low[i - 1]);
    if (end > begin) path += "Z";
    begin = end + 1;
  }
  return path;
}

std::string draw_curve(const PlotFrame& f, const Curve& c) {
  if (c.readout) return "";
  const std::string style = escape_markup(c.style);
  std::string svg;
  if (!c.low.empty()) svg += fmt::format("<path class=\"band {}\" d=\"{}\"/>", style, band_path(f, c));
  if (!c.x.empty())
    svg += fmt::format("<path class=\"line {}{}\" d=\"{}\"/>", style, c.faint ? " faint" : "", line_path(f, c.x, c.y));
  if (!c.dots || c.x.size() > 150) return svg;
  for (size_t i = 0; i < c.x.size(); ++i)
    if (std::isfinite(c.y[i]))
      svg += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", style, f.at_x(c.x[i]),
                         f.at_y(c.y[i]));
  return svg;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor, escape_markup(text));
}

// A short text inside the plotting area, with the places where it may be, the best one first.
struct Note {
  std::string text;
  struct Place {
    double x, y;  // of the baseline
    bool ends;    // at x, instead of beginning there
  };
  std::vector<Place> places;
};

struct Box {
  double left, top, right, bottom;
};

Box box_of(const Note& note, const Note::Place& p) {
  const double width = 6.2 * static_cast<double>(note.text.size());  // letters of 11 pixels are about so wide
  return {p.ends ? p.x - width : p.x, p.y - 11, p.ends ? p.x : p.x + width, p.y + 4};
}

// True if a line through the points passes through the box.
bool crosses(const PlotFrame& f, const std::vector<double>& x, const std::vector<double>& y, const Box& box) {
  for (size_t i = 1; i < x.size() && i < y.size(); ++i) {
    if (!std::isfinite(y[i - 1]) || !std::isfinite(y[i])) continue;
    const double x0 = f.at_x(x[i - 1]), x1 = f.at_x(x[i]), y0 = f.at_y(y[i - 1]), y1 = f.at_y(y[i]);
    if (x1 < box.left || x0 > box.right) continue;
    const auto at = [&](double px) {
      return x1 > x0 ? y0 + (y1 - y0) * std::clamp((px - x0) / (x1 - x0), 0.0, 1.0) : y1;
    };
    const auto [low, high] = std::minmax({at(box.left), at(box.right)});
    if (high >= box.top && low <= box.bottom) return true;
  }
  return false;
}

bool is_free(const Plot& plot, const PlotFrame& f, const Box& box) {
  if (box.top < 0 || box.bottom > f.top + f.height) return false;
  return std::ranges::none_of(plot.curves, [&](const Curve& c) {
    return !c.readout && std::ranges::any_of(std::array{&c.y, &c.low, &c.high},
                                             [&](const auto* y) { return crosses(f, c.x, *y, box); });
  });
}

// Draws the note at its first place that no curve passes through; if there is none, at the first.
std::string draw_note(const Plot& plot, const PlotFrame& f, const Note& note) {
  const auto found =
      std::ranges::find_if(note.places, [&](const auto& p) { return is_free(plot, f, box_of(note, p)); });
  const Note::Place& p = found == note.places.end() ? note.places.front() : *found;
  return fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", p.x, p.y,
                     p.ends ? "end" : "start", escape_markup(note.text));
}

// No share is above 100 %.
bool is_possible(double tick, NumberFormat format) { return format != NumberFormat::percent || tick < 1 + 1e-9; }

std::string draw_axes(const Plot& plot, const PlotFrame& f) {
  std::string svg;
  const double right = f.left + f.width, bottom = f.top + f.height;
  for (const double tick : linear_ticks(f.y, static_cast<int>(f.height / kTickSpacing)))
    if (is_possible(tick, plot.format))
      svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", f.left, f.at_y(tick), right) +
             label(f.left - 8, f.at_y(tick) + 4, "end", format_tick(tick, plot.format));
  for (const double tick : f.log_x ? log_ticks(f.x) : linear_ticks(f.x, static_cast<int>(f.width / 90)))
    svg += fmt::format("<path class=\"tick\" d=\"M{:.1f} {:.1f}v5\"/>", f.at_x(tick), bottom) +
           label(f.at_x(tick), bottom + 18, "middle", format_tick(tick, NumberFormat::count));
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", f.left, bottom, right);
  if (plot.right_ratio <= 0) return svg;
  const AxisRange scaled{f.y.low * plot.right_ratio, f.y.high * plot.right_ratio};
  for (const double tick : linear_ticks(scaled, static_cast<int>(f.height / kTickSpacing)))
    if (is_possible(tick, plot.right_format))
      svg += label(right + 8, f.at_y(tick / plot.right_ratio) + 4, "start", format_tick(tick, plot.right_format));
  return svg;
}

// Notes the extremes of values outside the plot.
std::string draw_clipped_note(const Plot& plot, const PlotFrame& f) {
  double above = -INFINITY, below = INFINITY;
  for (const Curve& c : plot.curves) {
    if (c.readout) continue;
    for (const auto* values : {&c.high, &c.low, &c.y})
      for (const double v : *values) {
        if (std::isfinite(v) && v > f.y.high) above = std::max(above, v);
        if (std::isfinite(v) && v < f.y.low) below = std::min(below, v);
      }
  }
  std::string svg;
  const double left = f.left + 6, middle = f.left + f.width / 2, right = f.left + f.width - 4;
  const auto note = [&](const char* what, double value, double y) {
    return draw_note(
        plot, f, {what + format_number(value, plot.format), {{right, y, true}, {middle, y, false}, {left, y, false}}});
  };
  if (std::isfinite(above)) svg += note("↑ peaks to ", above, f.top + 12);
  if (std::isfinite(below)) svg += note("↓ dips to ", below, f.top + f.height - 6);
  return svg;
}

std::string draw(const Plot& plot, const PlotFrame& f, const std::string& clip_id) {
  std::string svg = draw_axes(plot, f);
  svg +=
      fmt::format("<clipPath id=\"{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/></clipPath>",
                  clip_id, f.left, f.top, f.width, f.height);
  svg += fmt::format("<g clip-path=\"url(#{})\">", clip_id);
  for (const double x : plot.marks)
    svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>", f.at_x(x), f.top, f.height);
  if (plot.limit)
    svg += fmt::format("<path class=\"limit\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>", f.left, f.at_y(*plot.limit), f.width);
  for (const Curve& c : plot.curves) svg += draw_curve(f, c);
  svg += "</g>";
  if (!plot.marks.empty())
    svg += label(f.at_x(plot.marks.front()) + 5, f.top + f.height - 8, "start", plot.marks_label);
  if (plot.limit) {
    const double y = f.at_y(*plot.limit), left = f.left + 6, right = f.left + f.width - 4;
    svg += draw_note(
        plot, f,
        {plot.limit_label, {{left, y - 6, false}, {right, y - 6, true}, {left, y + 14, false}, {right, y + 14, true}}});
  }
  return svg + draw_clipped_note(plot, f);
}

// 6e-05 -> 6e-5
std::string scientific(double value, const char* form) {
  std::string text = fmt::format(fmt::runtime(form), value);
  const size_t exponent = text.find("e-0");
  if (exponent != std::string::npos) text.erase(exponent + 2, 1);
  return text;
}

}  // namespace

std::string format_number(double value, NumberFormat format) {
  if (!std::isfinite(value)) return "–";
  switch (format) {
    case NumberFormat::plain:
      return fmt::format("{:.5g}", value);
    case NumberFormat::count:
      return human_count(value);
    case NumberFormat::percent:
      return fmt::format("{:.3g}%", 100 * value);
    case NumberFormat::gibibytes:
      return fmt::format("{:.3g} GiB", value);
    case NumberFormat::scientific:
      return value == 0 ? "0" : scientific(value, "{:.2e}");
    case NumberFormat::milliseconds:
      return fmt::format("{:.4g} ms", value);
  }
  return "?";
}

std::string format_tick(double value, NumberFormat format) {
  if (value == 0) value = 0;  // no minus sign
  std::string text = format == NumberFormat::scientific ? scientific(value, "{:.3g}") : format_number(value, format);
  // 5.00k -> 5k
  const size_t point = text.find('.');
  if (point != std::string::npos) {
    const size_t unit = std::min(text.find_first_not_of("0123456789", point + 1), text.size());
    size_t keep = unit;
    while (text[keep - 1] == '0') --keep;
    text.erase(keep == point + 1 ? point : keep, unit - (keep == point + 1 ? point : keep));
  }
  return text;
}

std::vector<double> linear_ticks(AxisRange range, int count) {
  const double raw = (range.high - range.low) / std::max(count, 1);
  if (!(raw > 0) || !std::isfinite(raw)) return {};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
  std::vector<double> ticks;
  // Multiples of the step, so that 0 is exact and rounding errors do not accumulate.
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; (first + i) * step <= range.high + 1e-9 * step; ++i) {
    const double tick = (first + i) * step;
    if (!ticks.empty() && tick <= ticks.back()) return {};  // numbers so large that doubles cannot tell ticks apart
    ticks.push_back(tick);
  }
  return ticks;
}

std::vector<double> log_ticks(AxisRange range) {
  if (!(range.low >= std::numeric_limits<double>::min()) || !std::isfinite(range.high)) return {};
  const bool dense = range.high / range.low < 2000;
  std::vector<double> ticks;
  for (double power = std::pow(10.0, std::floor(std::log10(range.low))); power <= range.high; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0})
      if ((factor == 1 || dense) && factor * power >= range.low && factor * power <= range.high)
        ticks.push_back(factor * power);
  return ticks;
}

double PlotFrame::at_x(double value) const {
  const double share =
      log_x ? std::log(std::max(value, x.low) / x.low) / std::log(x.high / x.low) : (value - x.low) / (x.high - x.low);
  return left + width * share;
}

double PlotFrame::at_y(double value) const { return top + height * (1 - (value - y.low) / (y.high - y.low)); }

PlotFrame frame_of(const Plot& plot, bool log_x) {
  const double right = plot.right_ratio > 0 ? 46 : kRight;
  return {kLeft,         kTop, plot.width - kLeft - right, plot.height - kTop - kBottom, x_range(plot, log_x),
          y_range(plot), log_x};
}

std::string render_svg(const Plot& plot, bool log_x, const std::string& css_class) {
  const PlotFrame f = frame_of(plot, log_x);
  std::string id = "clip-" + css_class + "-";
  for (const char c : plot.title) id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  if (!plot.over_steps)
    return fmt::format("<svg class=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\"><title>{}</title>{}</svg>",
                       css_class, plot.width, plot.height, escape_markup(plot.title), draw(plot, f, id));
  std::string svg = fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" data-log=\"{}\" data-box=\"{:.1f} {:.1f} {:.1f} "
      "{:.1f}\" "
      "data-x=\"{:.9g} {:.9g}\" data-y=\"{:.9g} {:.9g}\"><title>{}</title>",
      css_class, plot.width, plot.height, log_x ? 1 : 0, f.left, f.top, f.width, f.height, f.x.low, f.x.high, f.y.low,
      f.y.high, escape_markup(plot.title));
  svg += draw(plot, f, id);
  svg += fmt::format("<path class=\"hair\" d=\"M0 {:.1f}v{:.1f}\"/>", f.top, f.height);
  for (const Curve& c : plot.curves)
    if (!c.readout)
      svg += fmt::format("<circle class=\"spot {}\" data-curve=\"{}\" r=\"3.6\"/>", escape_markup(c.style),
                         escape_markup(c.key));
  return svg + "</svg>";
}

std::string render_svg_file(const Plot& plot, const std::string& title, const std::string& subtitle) {
  constexpr double kPad = 20, kHead = 74;
  const double width = plot.width + 2 * kPad, height = plot.height + kHead + kPad;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\"><title>{2}</title><style>{3}</style>"
      "<rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{4:.0f}\" height=\"{5:.0f}\" rx=\"10\"/>",
      width, height, escape_markup(title), svg_file_style(), width - 1, height - 1);
  svg += fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"34\">{}</text>", kPad + 4, escape_markup(title));
  svg += fmt::format("<text class=\"subtitle\" x=\"{:.0f}\" y=\"56\">{}</text>", kPad + 4, escape_markup(subtitle));
  double x = width - kPad - 14;
  for (auto c = plot.curves.rbegin(); c != plot.curves.rend(); ++c) {
    if (c->label.empty() || c->readout) continue;
    // Seven pixels per letter are accurate enough to place a legend.
    x -= 7.0 * static_cast<double>(c->label.size());
    svg += fmt::format("<circle class=\"dot {}{}\" cx=\"{:.0f}\" cy=\"30\" r=\"4.5\"/>", escape_markup(c->style),
                       c->faint ? " faint" : "", x - 10) +
           label(x, 34, "start", c->label);
    x -= 34;
  }
  svg += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">{}</g></svg>\n", kPad, kHead,
                     draw(plot, frame_of(plot, !plot.over_steps), "clip"));
  return svg;
}

}  // namespace fp
