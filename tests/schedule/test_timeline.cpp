// Schedules as text and as pictures: each action is drawn once, where and as long as it runs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "report/strict_markup.h"
#include "schedule/text.h"

using namespace fp;

TEST_CASE("a line a rank, a column a unit of time", "[schedule]") {
  const Schedule s = generate({.kind = "1f1b", .ranks = 2, .micro_batches = 3});
  CHECK(text_timeline(s, simulate(s, {})) ==
        "  0  F0 F1 .  .  D0--- F2 D1--- .  D2---\n"
        "  1  .  F0 D0--- F1 D1--- F2 D2--- .  .\n");
}

TEST_CASE("chunks and pipes are told apart, pairs that run as one stand together", "[schedule]") {
  const Schedule wave = generate({.kind = "wave", .ranks = 2, .micro_batches = 1});
  CHECK(text_timeline(wave, simulate(wave, {})) ==
        "  0  F0a .   .   F0b D0b---- .   .   .   .   D0a----\n"
        "  1  .   F0a F0b .   .   .   D0b---- D0a---- .   .\n");
  Costs costs;
  costs.pairs_are_one = true;
  const Schedule dualpipe = generate({.kind = "dualpipe", .ranks = 2, .micro_batches = 4});
  CHECK(text_timeline(dualpipe, simulate(dualpipe, costs)) ==
        "  0  F0  F'0 F1  D'0---- F'1&D0----- D'1---- B1  W1\n"
        "  1  F'0 F0  F'1 D0----- F1&D'0----- D1----- B'1 W'1\n");
}

TEST_CASE("uneven times and none keep their places", "[schedule]") {
  const Schedule s = generate({.kind = "gpipe", .ranks = 2, .micro_batches = 1});
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

// The boxes of actions: those that say what they are.
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

TEST_CASE("a picture has a box for each action, side by side, as wide as they are long", "[schedule]") {
  for (const std::string_view kind : schedule_kinds())
    for (const bool as_one : {false, true}) {
      CAPTURE(kind, as_one);
      const Schedule s = generate({.kind = std::string(kind), .ranks = 4, .micro_batches = 8});
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

TEST_CASE("runs of a schedule stand below each other on one scale", "[schedule]") {
  const Schedule s = generate({.kind = "bitpipe", .ranks = 2, .micro_batches = 2});
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
