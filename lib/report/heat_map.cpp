#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/markup.h"
#include "report/report_style.h"

namespace fp {
namespace {

constexpr double kCellsLeft = 84, kCellsTop = 84, kBelowCells = 66, kBesideCells = 24, kCellWidth = 76,
                 kCellHeight = 40, kLeastWidth = 420;

std::string text(double x, double y, const char* anchor, const std::string& content, const char* css_class = "") {
  return fmt::format("<text class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>", css_class, x, y,
                     anchor, escape_markup(content));
}

}  // namespace

std::string render_heat_map(const HeatMap& map) {
  FP_CHECK(map.shares.size() == map.rows.size(), "{} rows of {}", map.shares.size(), map.rows.size());
  const double right = kCellsLeft + kCellWidth * static_cast<double>(map.columns.size());
  const double bottom = kCellsTop + kCellHeight * static_cast<double>(map.rows.size());
  const double width = std::max(right + kBesideCells, kLeastWidth), height = bottom + kBelowCells;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\"><title>{2}</title><style>{3}.cell{{fill:var(--blue);stroke:var(--card)}}svg "
      ".value{{fill:var(--ink);font-size:12px}}</style><rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{4:.0f}\" "
      "height=\"{5:.0f}\" rx=\"10\"/>",
      width, height, escape_markup(map.title), svg_file_style(), width - 1, height - 1);
  svg += text(24, 34, "start", map.title, "title") + text(24, 56, "start", map.subtitle, "subtitle");
  for (size_t r = 0; r < map.rows.size(); ++r) {
    FP_CHECK(map.shares[r].size() == map.columns.size(), "{} columns of {}", map.shares[r].size(), map.columns.size());
    const double y = kCellsTop + kCellHeight * static_cast<double>(r);
    svg += text(kCellsLeft - 8, y + kCellHeight / 2 + 4, "end", map.rows[r]);
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const double x = kCellsLeft + kCellWidth * static_cast<double>(c), share = std::clamp(map.shares[r][c], 0.0, 1.0);
      svg += fmt::format(
          "<rect class=\"cell\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill-opacity=\"{:.3f}\"/>",
          x, y, kCellWidth, kCellHeight, 0.04 + 0.71 * share);
      svg += text(x + kCellWidth / 2, y + kCellHeight / 2 + 4, "middle", fmt::format("{:.0f}%", 100 * share), "value");
    }
  }
  for (size_t c = 0; c < map.columns.size(); ++c)
    svg += text(kCellsLeft + kCellWidth * (static_cast<double>(c) + 0.5), bottom + 18, "middle", map.columns[c]);
  svg += text((kCellsLeft + right) / 2, bottom + 42, "middle", map.column_name);
  const double middle = (kCellsTop + bottom) / 2;
  svg +=
      fmt::format("<text x=\"24\" y=\"{0:.0f}\" text-anchor=\"middle\" transform=\"rotate(-90 24 {0:.0f})\">{1}</text>",
                  middle, escape_markup(map.row_name));
  return svg + "</svg>\n";
}

}  // namespace fp
