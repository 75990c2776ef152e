#include <algorithm>
#include <catch2/catch.hpp>

#include "report/heat_map.h"
#include "strict_markup.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("a heat map has a cell for each share, darker the greater it is") {
  HeatMap map;
  map.title = "Recall <1>";
  map.row_name = "depth";
  map.column_name = "length";
  map.rows = {"0%", "50%"};
  map.columns = {"256", "1024", "4096"};
  map.shares = {{0, 0.5, 1}, {0.25, 0.75, 1}};
  std::vector<std::string> texts;
  std::vector<double> opacities;
  for (const Element& e : parse_strictly(render_heat_map(map))) {
    if (e.name == "text") texts.push_back(e.text);
    if (e.name == "rect" && e.attributes.at("class") == "cell")
      opacities.push_back(std::stod(e.attributes.at("fill-opacity")));
  }
  for (const char* text : {"Recall <1>", "depth", "length", "0%", "50%", "256", "1024", "4096", "25%", "75%", "100%"})
    CHECK(std::count(texts.begin(), texts.end(), text) >= 1);
  REQUIRE(opacities.size() == 6);
  CHECK(opacities[0] < opacities[3]);
  CHECK(opacities[3] < opacities[1]);
  CHECK(opacities[4] < opacities[2]);
  CHECK(opacities[2] == opacities[5]);
}
