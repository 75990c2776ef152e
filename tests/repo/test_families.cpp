// Code asks for the traits of a model family, never for the family: a new family is a row of traits, not a search for
// places that compare families.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

// The folders that say what a family is.
const std::set<std::string> kFamilyPlaces = {"lib/config/", "lib/model/families/"};

bool may_name_families(const std::string& path) {
  return std::any_of(kFamilyPlaces.begin(), kFamilyPlaces.end(),
                     [&](const std::string& p) { return path.starts_with(p); });
}

bool names_a_family(const std::string& text) {
  static const std::regex enumerator(R"(\bFamily::\w)");
  return std::regex_search(strip_comments_and_literals(text), enumerator);
}

TEST_CASE("only the rows of traits and the declarations of parameters name a model family") {
  Problems problems("families");
  for (const std::string& path : project_files({"lib", "apps", "cuda"}, {".h", ".cpp", ".cu", ".cuh"}))
    if (!may_name_families(path) && names_a_family(read_project_file(path))) problems.add(path, "names a model family");
  CHECK(problems.report() == "");
  CHECK(names_a_family("if (m.family == Family::gpt)"));
  CHECK_FALSE(names_a_family("// not Family::gpt\nnamed<Family>(\"gpt\")"));
  for (const std::string& place : kFamilyPlaces)
    if (place.ends_with(".cpp")) CHECK(names_a_family(read_project_file(place)));
}

}  // namespace
}  // namespace fp::test
