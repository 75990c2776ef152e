#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "pipeline/text.h"

namespace fp {
namespace {

// "F3"; with several chunks "F3b" for the second, in the second pipe "F'3b".
std::string label(const Schedule& s, const Action& a) {
  std::string text(1, "FBWD"[static_cast<int>(a.kind)]);
  if (a.pipe == 1) text += '\'';
  text += std::to_string(a.micro_batch);
  const int chunk = a.stage / s.placement.ranks;
  if (s.placement.chunks > 1)
    text += chunk < 26 ? std::string(1, static_cast<char>('a' + chunk)) : fmt::format(".{}", chunk);
  return text;
}

struct Box {
  Interval when;
  std::string label;
};

// The boxes of a rank's compute actions; a pair that runs as one is one box.
std::vector<Box> boxes(const Schedule& s, const Timing& t, size_t rank) {
  std::vector<Box> all;
  const Action* before = nullptr;
  for (size_t i = 0; i < s.ranks[rank].size(); ++i) {
    const Action& a = s.ranks[rank][i];
    const Interval& when = t.actions[rank][i];
    if (!is_compute(a.kind)) continue;
    if (before && before->paired_with_next && all.back().when.start == when.start)
      all.back().label += "&" + label(s, a);
    else
      all.push_back({when, label(s, a)});
    before = &a;
  }
  return all;
}

}  // namespace

std::string text_timeline(const Schedule& s, const Timing& t) {
  constexpr double kMostColumns = 4000;
  std::vector<std::vector<Box>> rows;
  double unit = t.makespan;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    rows.push_back(boxes(s, t, r));
    for (const Box& b : rows.back())
      if (b.when.end > b.when.start) unit = std::min(unit, b.when.end - b.when.start);
  }
  unit = std::max(unit, t.makespan / kMostColumns);
  if (!(unit > 0)) return "";
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time / unit)); };
  size_t width = 1;  // characters per column: every label and a blank after it fit into their columns
  for (const std::vector<Box>& row : rows)
    for (const Box& b : row) {
      const size_t columns = std::max<size_t>(1, column(b.when.end) - column(b.when.start));
      width = std::max(width, (b.label.size() + columns) / columns);
    }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (const Box& b : rows[r]) {
      while (line.size() < column(b.when.start) * width) line += line.size() % width == 0 ? '.' : ' ';
      line += b.label;
      if (line.size() + 1 < column(b.when.end) * width)
        line.resize(column(b.when.end) * width - 1, column(b.when.end) - column(b.when.start) > 1 ? '-' : ' ');
      line += ' ';
    }
    while (line.size() < column(t.makespan) * width) line += line.size() % width == 0 ? '.' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:>3}  {}\n", r, line);
  }
  return text;
}

std::string timeline_legend(const Schedule& s) {
  std::array<bool, 4> used{};
  for (const std::vector<Action>& rank : s.ranks)
    for (const Action& a : rank)
      if (is_compute(a.kind)) used[static_cast<size_t>(a.kind)] = true;
  constexpr std::array<std::string_view, 4> kMeanings = {"F forward", "B gradient of the input",
                                                         "W gradient of the weights", "D whole backward"};
  std::string text;
  for (size_t kind = 0; kind < used.size(); ++kind)
    if (used[kind]) text += fmt::format("{}{}", text.empty() ? "" : ", ", kMeanings[kind]);
  text += "; the number is the micro-batch";
  if (s.placement.chunks > 1) text += s.placement.chunks <= 26 ? ", a letter the chunk" : ", .n the chunk";
  if (s.placement.two_way) text += ", ' the second pipe";
  return text + "; a line is a rank";
}

}  // namespace fp
