// Text and SVG timelines: each action is drawn once, at its start time and with its duration.
#include <algorithm>
#include <catch2/catch.hpp>

#include "pipeline/text.h"
#include "report/strict_markup.h"

using namespace fp;

TEST_CASE("a text timeline has a line per rank and a column per unit of time", "[pipeline]") {
  const Schedule s = generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 2, .micro_batches = 3});
  CHECK(text_timeline(s, simulate(s, {})) ==
        "  0  F0 F1 .  .  D0--- F2 D1--- .  D2---\n"
        "  1  .  F0 D0--- F1 D1--- F2 D2--- .  .\n");
}

TEST_CASE("labels distinguish chunks and pipes and join fused pairs", "[pipeline]") {
  const Schedule wave = generate({.kind = PipelineSchedule::wave, .ranks = 2, .micro_batches = 1});
  CHECK(text_timeline(wave, simulate(wave, {})) ==
        "  0  F0a .   .   F0b D0b---- .   .   .   .   D0a----\n"
        "  1  .   F0a F0b .   .   .   D0b---- D0a---- .   .\n");
  Costs costs;
  costs.pairs_are_one = true;
  const Schedule dualpipe = generate({.kind = PipelineSchedule::dualpipe, .ranks = 2, .micro_batches = 4});
  CHECK(text_timeline(dualpipe, simulate(dualpipe, costs)) ==
        "  0  F0  F'0 F1  D'0---- F'1&D0----- D'1---- B1  W1\n"
        "  1  F'0 F0  F'1 D0----- F1&D'0----- D1----- B'1 W'1\n");
}

TEST_CASE("a legend explains the labels that a timeline has", "[pipeline]") {
  CHECK(timeline_legend(generate({.kind = PipelineSchedule::one_f_one_b, .ranks = 2, .micro_batches = 3})) ==
        "F forward, D whole backward; the number is the micro-batch; a line is a rank");
  CHECK(
      timeline_legend(generate({.kind = PipelineSchedule::dualpipe, .ranks = 2, .micro_batches = 4})) ==
      "F forward, B gradient of the input, W gradient of the weights, D whole backward; the number is the micro-batch, "
      "' the second pipe; a line is a rank");
  CHECK(timeline_legend(generate({.kind = PipelineSchedule::wave, .ranks = 2, .micro_batches = 1})) ==
        "F forward, D whole backward; the number is the micro-batch, a letter the chunk; a line is a rank");
}

TEST_CASE("timelines work with uneven times and with zero times", "[pipeline]") {
  const Schedule s = generate({.kind = PipelineSchedule::gpipe, .ranks = 2, .micro_batches = 1});
  Costs costs;
  costs.each = {0.5, 1, 0.5};
  costs.hop = 0.5;
  CHECK(text_timeline(s, simulate(s, costs)) ==
        "  0  F0 .  .  .  .  .  .  D0------\n"
        "  1  .  .  F0 D0------ .  .  .  .\n");
  costs.each = {0, 0, 0};
  costs.hop = 0;
  CHECK(text_timeline(s, simulate(s, costs)) == "");
  CHECK(!fp::test::parse_strictly(svg_timeline(s, simulate(s, costs), "nothing")).empty());
}

namespace {

struct Box {
  double x, y, width, height;
};

// The boxes of actions: the rectangles that have a title.
std::vector<Box> boxes(const std::vector<fp::test::Element>& elements) {
  std::vector<Box> all;
  for (size_t i = 0; i + 1 < elements.size(); ++i) {
    if (elements[i].name != "rect" || elements[i + 1].name != "title") continue;
    const auto number = [&](const char* name) { return std::stod(elements[i].attributes.at(name)); };
    all.push_back({number("x"), number("y"), number("width"), number("height")});
  }
  return all;
}

}  // namespace

TEST_CASE("an SVG has one box per action whose width is proportional to its duration", "[pipeline]") {
  for (const PipelineSchedule kind : schedule_kinds())
    for (const bool as_one : {false, true}) {
      CAPTURE(name_of(kind), as_one);
      const Schedule s = generate({.kind = kind, .ranks = 4, .micro_batches = 8});
      Costs costs;
      costs.pairs_are_one = as_one;
      const Timing t = simulate(s, costs);
      const auto elements = fp::test::parse_strictly(svg_timeline(s, t, "m < 9 & p = 4"));
      CHECK(elements.at(1).text == "m < 9 & p = 4");
      const std::vector<Box> drawn = boxes(elements);
      size_t actions = 0;
      for (const auto& list : s.ranks) actions += list.size();
      CHECK(drawn.size() == actions);
      double area = 0;
      bool apart = true;
      for (size_t i = 0; i < drawn.size(); ++i) {
        const Box& a = drawn[i];
        area += a.width * a.height;
        for (size_t j = 0; j < i; ++j) {
          const Box& b = drawn[j];
          apart &= a.x + a.width <= b.x + 0.11 || b.x + b.width <= a.x + 0.11 || a.y + a.height <= b.y ||
                   b.y + b.height <= a.y;
        }
      }
      CHECK(apart);
      CHECK(area == Approx(4 * t.work * 20 * 26));
    }
}

TEST_CASE("several timings of a schedule are drawn below each other on one scale", "[pipeline]") {
  const Schedule s = generate({.kind = PipelineSchedule::bitpipe, .ranks = 2, .micro_batches = 2});
  Costs slower;
  slower.each = {2, 2, 2};
  const Timing once = simulate(s, {}), twice = simulate(s, slower);
  const auto elements = fp::test::parse_strictly(svg_timelines(s, {{"first", &once}, {"second", &twice}}, "two"));
  for (const char* name : {"first", "second"})
    CHECK(std::ranges::count(elements, std::string(name), &fp::test::Element::text) == 1);
  const std::vector<Box> drawn = boxes(elements);
  REQUIRE(drawn.size() % 2 == 0);
  const size_t n = drawn.size() / 2;
  for (size_t i = 0; i < n; ++i) {
    CHECK(drawn[n + i].width == Approx(2 * drawn[i].width));
    CHECK(drawn[n + i].y > drawn[n - 1].y);
  }
}
