#include "schedule_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/filesystem.h"
#include "schedule/text.h"

namespace fp {
namespace {

std::string bubble_chart(const std::vector<MeasuredSchedule>& all) {
  constexpr double kLeft = 190, kTop = 64, kRow = 30, kBar = 11, kWidth = 520, kMargin = 70;
  constexpr const char* kColours[] = {"#9db7e0", "#1f4e96"};
  constexpr const char* kNames[] = {"simulated", "executed"};
  double most = 0.01;
  for (const MeasuredSchedule& m : all)
    most = std::max({most, m.times.simulated.bubble, m.times.median().bubble});
  const double width = kLeft + kWidth + kMargin, height = kTop + kRow * static_cast<double>(all.size()) + 10;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#111\">\n<title>Bubbles of pipeline "
      "schedules</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"16\" y=\"24\" "
      "font-size=\"14\">Bubble: share of a step in which a rank does not compute</text>\n",
      width, height);
  for (int i = 0; i < 2; ++i)
    svg += fmt::format(
        "<rect x=\"{0}\" y=\"38\" width=\"{1}\" height=\"{1}\" fill=\"{2}\"/><text x=\"{3}\" y=\"48\">{4}</text>\n",
        kLeft + 100 * i, kBar, kColours[i], kLeft + 100 * i + 17, kNames[i]);
  double y = kTop;
  for (const MeasuredSchedule& m : all) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}, {} ranks</text>\n", kLeft - 8, y + 15, m.name,
                       m.schedule.placement.ranks);
    for (int i = 0; i < 2; ++i) {
      const double bubble = i == 0 ? m.times.simulated.bubble : m.times.median().bubble;
      const double length = std::max(0.0, bubble) / most * kWidth, top = y + kBar * i;
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.1f}\" "
          "y=\"{:.1f}\">{:.1f}%</text>\n",
          kLeft, top, length, kBar, kColours[i], kLeft + length + 5, top + 9.5, 100 * bubble);
    }
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace

void draw_schedules(const std::vector<MeasuredSchedule>& all, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "bubbles.svg", bubble_chart(all));
  for (const MeasuredSchedule& m : all) {
    const Placement& p = m.schedule.placement;
    const std::string title = fmt::format("{}: {} ranks, {} micro-batches", m.name, p.ranks, m.schedule.micro_batches);
    const auto name = [](const char* what, const Timing& t) {
      return fmt::format("{}: {:.1f} units, bubble {:.1f}%", what, t.makespan, 100 * t.bubble);
    };
    const Timing &planned = m.times.simulated, &run = m.times.median();
    write_file_atomically(
        folder / fmt::format("{}-{}.svg", m.name, p.ranks),
        svg_timelines(m.schedule, {{name("simulated", planned), &planned}, {name("executed", run), &run}}, title));
  }
}

}  // namespace fp
