#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/markup.h"
#include "pipeline/text.h"

namespace fp {
namespace {

constexpr double kLeft = 64, kTop = 40, kRow = 30, kBox = 26, kMargin = 16, kLegend = 230;

struct Shade {
  std::string fill, ink;
};

// A hue for each kind and pipe, darker from chunk to chunk.
Shade shade(const Schedule& s, const Action& a) {
  constexpr int kHue[][2] = {{214, 262}, {32, 52}, {130, 174}, {4, 326}};  // F, B, W, D
  const int chunks = s.placement.chunks, chunk = a.stage / s.placement.ranks;
  const int light = chunks == 1 ? 74 : 82 - 42 * chunk / (chunks - 1);
  const int hue = kHue[static_cast<int>(a.kind)][a.pipe];
  return {fmt::format("hsl({},{}%,{}%)", hue, a.pipe == 1 ? 55 : 70, light), light < 55 ? "#fff" : "#111"};
}

const char* kind_name(ActionKind kind) {
  constexpr const char* kNames[] = {"forward", "backward, input", "backward, weights", "backward"};
  return kNames[static_cast<int>(kind)];
}

// CSS class of an action's colour: one per kind, pipe and chunk.
std::string style_class(const Schedule& s, const Action& a) {
  return fmt::format("k{}p{}c{}", static_cast<int>(a.kind), a.pipe, a.stage / s.placement.ranks);
}

// One action of each colour in the picture, in the order of the legend.
std::vector<Action> colours(const Schedule& s) {
  const auto place = [&](const Action& a) { return std::tuple(a.kind, a.pipe, a.stage / s.placement.ranks); };
  std::set<std::tuple<ActionKind, uint8_t, int>> seen;
  std::vector<Action> all;
  for (const std::vector<Action>& list : s.ranks)
    for (const Action& a : list)
      if (is_compute(a.kind) && seen.insert(place(a)).second) all.push_back(a);
  std::sort(all.begin(), all.end(), [&](const Action& a, const Action& b) { return place(a) < place(b); });
  return all;
}

class Picture {
 public:
  Picture(const Schedule& s, const std::vector<NamedTiming>& runs) : schedule_(s), runs_(runs), colours_(colours(s)) {
    double longest = 0;
    for (const NamedTiming& run : runs) longest = std::max(longest, run.timing->makespan);
    double shortest = longest;
    for (size_t r = 0; r < s.ranks.size(); ++r)
      for (size_t i = 0; i < s.ranks[r].size(); ++i)
        for (const NamedTiming& run : runs)
          if (const Interval& t = run.timing->actions[r][i]; is_compute(s.ranks[r][i].kind) && t.end > t.start)
            shortest = std::min(shortest, t.end - t.start);
    // Numbers fit into the shortest box, unless that makes the picture too wide to look at.
    constexpr double kNarrow = 20, kWidest = 20000;
    scale_ = longest > 0 ? std::min(kNarrow / shortest, kWidest / longest) : 1;
    width_ = std::max(kLeft + longest * scale_ + kMargin, 640.0);
    per_line_ = std::max<size_t>(1, static_cast<size_t>((width_ - kLeft) / kLegend));
  }

  std::string draw(const std::string& title) const {
    double legend = kTop + kMargin;
    for (const NamedTiming& run : runs_) legend += heading(run) + kRow * static_cast<double>(schedule_.ranks.size());
    const size_t lines = (colours_.size() + per_line_ - 1) / per_line_;
    const double height = legend + kRow * static_cast<double>(lines) + kMargin;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{2}</title>\n<style>\n"
        "rect{{stroke:#fff;stroke-width:1}} text{{fill:#111}} .n{{text-anchor:middle}}\n",
        width_, height, escape_markup(title));
    for (const Action& a : colours_) {
      const Shade c = shade(schedule_, a);
      svg += fmt::format("rect.{0}{{fill:{1}}} text.{0}{{fill:{2}}}\n", style_class(schedule_, a), c.fill, c.ink);
    }
    svg += fmt::format(
        "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"24\" "
        "font-size=\"14\">{}</text>\n",
        kMargin, escape_markup(title));
    double y = kTop;
    for (const NamedTiming& run : runs_) {
      y += heading(run);
      if (!run.name.empty())
        svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft, y - 6, escape_markup(run.name));
      for (size_t r = 0; r < schedule_.ranks.size(); ++r, y += kRow) svg += row(*run.timing, r, y);
    }
    for (size_t i = 0; i < colours_.size(); ++i) svg += legend_entry(i, legend);
    return svg + "</svg>\n";
  }

 private:
  static double heading(const NamedTiming& run) { return run.name.empty() ? 0 : kRow; }

  std::string row(const Timing& timing, size_t r, double y) const {
    std::string svg = fmt::format(
        "<text x=\"{}\" y=\"{}\">rank {}</text>\n<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" "
        "height=\"{}\" fill=\"#eee\"/>\n",
        kMargin, y + 17, r, kLeft, y, timing.makespan * scale_, kBox);
    const Action* before = nullptr;
    double start = 0;
    for (size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
      const Action& a = schedule_.ranks[r][i];
      if (!is_compute(a.kind)) continue;
      const Interval& when = timing.actions[r][i];
      // A pair that runs as one is drawn as two half-height boxes, one above the other.
      const bool second = before && before->paired_with_next && start == when.start;
      const bool first = a.paired_with_next && when.end > when.start && runs_as_one(timing, r, i);
      svg += box(a, when, second ? y + kBox / 2 : y, first || second ? kBox / 2 : kBox);
      before = &a;
      start = when.start;
    }
    return svg;
  }

  bool runs_as_one(const Timing& timing, size_t r, size_t i) const {
    size_t j = i + 1;
    while (j < schedule_.ranks[r].size() && !is_compute(schedule_.ranks[r][j].kind)) ++j;
    return j < schedule_.ranks[r].size() && timing.actions[r][j].start == timing.actions[r][i].start;
  }

  std::string box(const Action& a, const Interval& when, double y, double height) const {
    const double x = kLeft + when.start * scale_, width = (when.end - when.start) * scale_;
    const std::string style = style_class(schedule_, a);
    std::string svg = fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{} of micro-batch "
        "{}{}, stage {}: {:g} to {:g}</title></rect>",
        style, x, y, width, height, kind_name(a.kind), a.micro_batch, a.pipe == 1 ? " up" : "", a.stage, when.start,
        when.end);
    constexpr double kDigit = 6.5;
    const std::string number = std::to_string(a.micro_batch);
    if (kDigit * static_cast<double>(number.size()) <= width)
      svg += fmt::format("<text class=\"n {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", style, x + width / 2,
                         y + height / 2 + 4, number);
    return svg + "\n";
  }

  std::string legend_entry(size_t i, double top) const {
    const Action& a = colours_[i];
    std::string name = kind_name(a.kind);
    if (schedule_.placement.chunks > 1) name += fmt::format(", chunk {}", a.stage / schedule_.placement.ranks);
    if (schedule_.placement.two_way) name += a.pipe == 0 ? ", down" : ", up";
    const double x = kLeft + kLegend * static_cast<double>(i % per_line_);
    const double y = top + kRow * static_cast<double>(i / per_line_);
    return fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\"/><text x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text>\n",
        style_class(schedule_, a), x, y, x + 20, y + 11, name);
  }

  const Schedule& schedule_;
  const std::vector<NamedTiming>& runs_;
  std::vector<Action> colours_;
  double scale_ = 1, width_ = 0;
  size_t per_line_ = 1;
};

}  // namespace

std::string svg_timeline(const Schedule& s, const Timing& t, const std::string& title) {
  return svg_timelines(s, {{"", &t}}, title);
}

std::string svg_timelines(const Schedule& s, const std::vector<NamedTiming>& runs, const std::string& title) {
  return Picture(s, runs).draw(title);
}

}  // namespace fp
