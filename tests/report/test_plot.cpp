#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/markup.h"
#include "report/plot.h"
#include "strict_markup.h"
#include "support/count_of.h"

using namespace fp;
using fp::test::count_of;
using fp::test::parse_strictly;

namespace {

Plot line_plot(std::vector<double> x, std::vector<double> y) {
  Plot plot;
  plot.title = "A <title> & \"more\"";
  Curve c;
  c.key = "k";
  c.label = "curve";
  c.style = "c-train";
  c.x = std::move(x);
  c.y = std::move(y);
  plot.curves.push_back(c);
  return plot;
}

}  // namespace

TEST_CASE("ticks are round numbers inside the range") {
  CHECK(linear_ticks({0, 10}, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  const std::vector<double> ticks = linear_ticks({1.93, 2.61}, 4);
  REQUIRE(ticks.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(ticks[i] == Approx(2.0 + 0.2 * static_cast<double>(i)));
  CHECK(linear_ticks({-1, 1}, 4)[2] == 0.0);
  CHECK(linear_ticks({5, 5}, 4).empty());
  CHECK(linear_ticks({9007199254740992, 9007199254740994}, 6).empty());  // doubles are 2 apart there
  CHECK(linear_ticks({-1e300, 1e300}, 4).size() >= 3);
  CHECK(log_ticks({0, 10}).empty());
  CHECK(log_ticks({5e-324, 10}).empty());
  CHECK(log_ticks({1, std::numeric_limits<double>::infinity()}).empty());
  CHECK(linear_ticks({1e9, 1e9 + 3}, 3) == std::vector<double>{1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3});
  CHECK(log_ticks({1, 1e6}) == std::vector<double>{1, 10, 100, 1000, 1e4, 1e5, 1e6});
  CHECK(log_ticks({3, 60}) == std::vector<double>{5, 10, 20, 50});
}

TEST_CASE("numbers are short on axes and exact in legends") {
  CHECK(format_tick(5000, NumberFormat::count) == "5k");
  CHECK(format_tick(12500, NumberFormat::count) == "12.5k");
  CHECK(format_tick(-0.0, NumberFormat::plain) == "0");
  CHECK(format_tick(6e-5, NumberFormat::scientific) == "6e-5");
  CHECK(format_tick(0.4, NumberFormat::percent) == "40%");
  CHECK(format_number(1.95014, NumberFormat::plain) == "1.9501");
  CHECK(format_number(6e-5, NumberFormat::scientific) == "6.00e-5");
  CHECK(format_number(NAN, NumberFormat::count) == "–");
}

TEST_CASE("values are mapped to pixels on linear and logarithmic axes") {
  Plot plot = line_plot({1, 10, 100}, {0, 5, 10});
  const PlotFrame linear = frame_of(plot, false), log = frame_of(plot, true);
  CHECK(linear.at_x(1) == Approx(linear.left));
  CHECK(linear.at_x(100) == Approx(linear.left + linear.width));
  CHECK(log.at_x(10) == Approx(log.left + log.width / 2));
  CHECK(linear.at_y(0) > linear.at_y(10));
  CHECK(linear.at_y(10) >= linear.top);
  CHECK(linear.at_y(0) <= linear.top + linear.height);
  plot.x = AxisRange{1, 1000};
  CHECK(frame_of(plot, true).at_x(10) == Approx(log.left + log.width / 3));
}

TEST_CASE("drawings are well-formed for all values") {
  for (const bool log_x : {false, true}) {
    for (const Plot& plot :
         {line_plot({}, {}), line_plot({1}, {2}), line_plot({1, 2}, {3, 3}), line_plot({1, 2, 3}, {NAN, NAN, NAN}),
          line_plot({1, 2, 3}, {1, INFINITY, 2}), line_plot({0, 5}, {-1e300, 1e300}), line_plot({7, 7}, {0, 0})}) {
      const std::string svg = render_svg(plot, log_x, "lin");
      const auto elements = parse_strictly(svg);
      CHECK(elements[0].name == "svg");
      CHECK(elements[1].text == plot.title);
      CHECK(svg.find("nan") == std::string::npos);
      CHECK(svg.find("inf") == std::string::npos);
    }
  }
  const std::string gap = render_svg(line_plot({1, 2, 3, 4, 5}, {1, 2, NAN, 2, 1}), false, "lin");
  CHECK(count_of(gap, "class=\"line c-train\" d=\"M") == 1);
  for (const auto& e : parse_strictly(gap))
    if (e.name == "path" && e.attributes.at("class") == "line c-train") CHECK(count_of(e.attributes.at("d"), "M") == 2);
}

TEST_CASE("single spikes of a faint curve are clipped and noted") {
  std::vector<double> x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(i);
    y.push_back(i == 500 ? 777.0 : 1 + 0.001 * i);
  }
  Plot plot = line_plot(x, y);
  CHECK(frame_of(plot, false).y.high > 777);
  plot.curves[0].faint = true;
  CHECK(frame_of(plot, false).y.high < 3);
  CHECK(render_svg(plot, false, "lin").find("peaks to 777") != std::string::npos);
}

TEST_CASE("bands, limits, marks, right axes and read-outs are drawn as requested") {
  Plot plot = line_plot({1, 2, 3}, {10, 20, 30});
  plot.curves[0].low = {9, 19, 29};
  plot.curves[0].high = {11, 21, NAN};
  plot.curves[0].dots = true;
  plot.limit = 40;
  plot.limit_label = "most & more";
  plot.marks = {2};
  plot.from_zero = true;
  plot.right_ratio = 0.01;
  Curve hidden;
  hidden.key = "hidden";
  hidden.readout = NumberFormat::percent;
  hidden.x = {1, 2, 3};
  hidden.y = {1e6, 1e6, 1e6};
  plot.curves.push_back(hidden);
  const std::string svg = render_svg(plot, false, "lin");
  parse_strictly(svg);
  CHECK(count_of(svg, "class=\"dot c-train\"") == 3);
  CHECK(count_of(svg, "class=\"mark\"") == 1);
  CHECK(count_of(svg, "class=\"limit\"") == 1);
  CHECK(svg.find("most &amp; more") != std::string::npos);
  CHECK(svg.find(">40%<") != std::string::npos);
  CHECK(svg.find("hidden") == std::string::npos);
  CHECK(frame_of(plot, false).y.low == 0);
  CHECK(frame_of(plot, false).y.high < 50);
}

namespace {

// Returns the position of the note with this text.
std::pair<double, double> place_of(const std::string& svg, const std::string& text) {
  for (const auto& e : parse_strictly(svg))
    if (e.name == "text" && e.text.find(text) != std::string::npos)
      return {std::stod(e.attributes.at("x")), std::stod(e.attributes.at("y"))};
  FAIL("no text " + text);
  return {};
}

}  // namespace

TEST_CASE("labels do not overlap curves") {
  Plot plot = line_plot({1, 50, 100}, {39, 39, 39});
  plot.from_zero = true;
  plot.limit = 40;
  plot.limit_label = "predicted";
  const PlotFrame f = frame_of(plot, false);
  // The curve runs just below the line: the label is above it.
  CHECK(place_of(render_svg(plot, false, "lin"), "predicted").second < f.at_y(40));
  // It runs above the line on the left: the label is above the line on the right.
  plot.curves[0].y = {41, 41, 20};
  const PlotFrame g = frame_of(plot, false);
  const auto [x, y] = place_of(render_svg(plot, false, "lin"), "predicted");
  CHECK(x > g.left + g.width / 2);
  CHECK(y < g.at_y(40));
  // It runs above the line everywhere: the label is below it.
  plot.curves[0].y = {41, 41, 41};
  CHECK(place_of(render_svg(plot, false, "lin"), "predicted").second > frame_of(plot, false).at_y(40));
}

TEST_CASE("the note of a dip keeps off a curve that ends at the bottom") {
  std::vector<double> x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(i);
    y.push_back(i == 300 ? -500.0 : 10 - 0.01 * i);
  }
  Plot plot = line_plot(x, y);
  plot.curves[0].faint = true;
  const PlotFrame f = frame_of(plot, false);
  CHECK(place_of(render_svg(plot, false, "lin"), "dips to -500").first < f.left + f.width / 2 + 1);
}

TEST_CASE("the axis of a plot in percent does not exceed 100 %") {
  Plot plot = line_plot({1, 2, 3}, {100, 150, 120});
  plot.from_zero = true;
  plot.right_ratio = 0.01;
  const std::string svg = render_svg(plot, false, "lin");
  CHECK(svg.find(">100%<") != std::string::npos);
  CHECK(svg.find(">150%<") == std::string::npos);
}

TEST_CASE("escaped markup is valid UTF-8") {
  CHECK(escape_markup("a<b>&\"c'") == "a&lt;b&gt;&amp;&quot;c&#39;");
  CHECK(escape_markup("tab\tline\n") == "tab\tline\n");
  CHECK(escape_markup("Grüße, 世界 🙂") == "Grüße, 世界 🙂");
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(escape_markup(std::string("\0\x1b\x7f", 3)) == bad + bad + bad);
  CHECK(escape_markup("\xff|\xc0\xaf|\xe4\xb8") == bad + "|" + bad + bad + "|" + bad + bad);
  CHECK(escape_markup("\xed\xa0\x80") == bad + bad + bad);            // a surrogate
  CHECK(escape_markup("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(escape_markup("\xc2\x85") == bad + bad);                      // a C1 control
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK_NOTHROW(parse_strictly("<p>" + escape_markup(all + all) + "</p>"));
}

TEST_CASE("the strict markup parser refuses malformed markup") {
  for (const char* bad :
       {"<p>", "<p></b>", "<p a=1></p>", "<p a=\"1\" a=\"2\"></p>", "<p>&x;</p>", "<p>a & b</p>", "<p>a > b</p>",
        "<p>\xff</p>", "<p/><p/>", "text", "<p id=\"a\"><b id=\"a\"/></p>", "<p a=\"<\"/>"}) {
    INFO(bad);
    CHECK_THROWS(parse_strictly(bad));
  }
  CHECK(parse_strictly("<p a=\"&lt;\">x<b>y</b></p>")[0].text == "xy");
}
