#include "schedule_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/filesystem.h"
#include "pipeline/text.h"

namespace fp {
namespace {

constexpr const char* kColours[] = {"#9db7e0", "#1f4e96"};
constexpr const char* kRuns[] = {"simulated", "executed"};

// Returns the index of a value among those seen so far; appends a new one.
template <class T>
size_t place(std::vector<T>& seen, const T& value) {
  const auto it = std::ranges::find(seen, value);
  if (it != seen.end()) return static_cast<size_t>(it - seen.begin());
  seen.push_back(value);
  return seen.size() - 1;
}

// A bar chart with a row for each schedule and a column for each number of ranks.
std::string bubble_chart(const std::vector<MeasuredSchedule>& all) {
  constexpr double kLeft = 112, kTop = 62, kRow = 28, kBar = 10, kWidth = 270, kColumn = 340;
  double most = 0.01;
  for (const MeasuredSchedule& m : all) most = std::max({most, m.times.simulated.bubble, m.times.median().bubble});
  std::vector<std::string> names;
  std::vector<int> ranks;
  std::string body;
  for (const MeasuredSchedule& m : all) {
    const double x = kLeft + kColumn * static_cast<double>(place(ranks, m.schedule.placement.ranks));
    const size_t row = place(names, m.name);
    for (int i = 0; i < 2; ++i) {
      const double bubble = i == 0 ? m.times.simulated.bubble : m.times.median().bubble;
      const double length = bubble / most * kWidth, y = kTop + kRow * static_cast<double>(row) + kBar * i;
      body += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/><text x=\"{:.1f}\" "
          "y=\"{}\">{:.1f}%</text>\n",
          x, y, length, kBar, kColours[i], x + length + 5, y + 9, 100 * bubble);
    }
  }
  for (size_t i = 0; i < names.size(); ++i)
    body += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 8,
                        kTop + kRow * static_cast<double>(i) + 14, names[i]);
  for (size_t i = 0; i < ranks.size(); ++i)
    body += fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{} ranks</text>\n",
                        kLeft + kColumn * static_cast<double>(i), kTop - 10, ranks[i]);
  for (int i = 0; i < 2; ++i)
    body += fmt::format(
        "<rect x=\"{0}\" y=\"10\" width=\"11\" height=\"11\" fill=\"{1}\"/><text x=\"{2}\" "
        "y=\"20\">{3}</text>\n",
        kLeft + 180 + 90 * i, kColours[i], kLeft + 197 + 90 * i, kRuns[i]);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#111\">\n<title>Bubbles of pipeline "
      "schedules</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{2}\" y=\"21\" "
      "font-size=\"14\">Bubble of a step</text>\n{3}</svg>\n",
      kLeft + kColumn * static_cast<double>(ranks.size()), kTop + kRow * static_cast<double>(names.size()), kLeft,
      body);
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
