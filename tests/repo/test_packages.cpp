// Dependencies are consistent: scripts/packages.txt (what is installed), third_party/README.md (why, licence) and
// third_party/CMakeLists.txt (how it is found) list the same packages.
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

struct Package {
  std::string group, name, purpose;
};

std::vector<Package> parse_packages(const std::string& text) {
  std::vector<Package> packages;
  for (const std::string& line : split_lines(text)) {
    if (line.empty() || line.front() == '#') continue;
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    REQUIRE(second != std::string::npos);
    packages.push_back(
        {trim(line.substr(0, first)), trim(line.substr(first + 1, second - first - 1)), trim(line.substr(second + 1))});
  }
  return packages;
}

TEST_CASE("every package has a group, a purpose and one line") {
  std::set<std::string> seen;
  for (const Package& p : parse_packages(read_project_file("scripts/packages.txt"))) {
    INFO(p.name);
    CHECK(std::set<std::string>{"build", "test", "cluster", "parity", "sanitize", "demo", "bundle", "style"}.count(
              p.group) == 1);
    CHECK(!p.purpose.empty());
    CHECK(seen.insert(p.name).second);
  }
  CHECK(seen.count("g++") == 1);
}

TEST_CASE("packages.txt and the table of third_party list the same packages") {
  std::set<std::string> listed, in_table;
  for (const Package& p : parse_packages(read_project_file("scripts/packages.txt"))) listed.insert(p.name);
  // A row: | dependency | what for | minimum | `package` | licence | how it is found |
  static const std::regex row(R"(^\|[^|]+\|[^|]+\|[^|]+\|\s*`([^`]+)`\s*\|[^|]+\|[^|]+\|$)");
  for (const std::string& line : split_lines(read_project_file("third_party/README.md"))) {
    std::smatch match;
    if (std::regex_match(line, match, row)) in_table.insert(match[1]);
  }
  CHECK(listed == in_table);
}

TEST_CASE("the table says how CMake finds each library") {
  const std::string table = read_project_file("third_party/README.md");
  const std::string code = read_project_file("third_party/CMakeLists.txt");
  static const std::regex lookup(
      R"((find_package\((\S+)|pkg_check_modules\(\w+ [^)]*?([\w-]+)\)|find_library\(\w+ (\w+)))");
  size_t found = 0;
  for (std::sregex_iterator it(code.begin(), code.end(), lookup), end; it != end; ++it, ++found) {
    std::string name = (*it)[2].matched ? (*it)[2] : (*it)[3].matched ? (*it)[3] : (*it)[4];
    while (!name.empty() && name.back() == ')') name.pop_back();
    INFO(it->str());
    CHECK(table.find(name) != std::string::npos);
  }
  CHECK(found >= 10);
}

}  // namespace
}  // namespace fp::test
