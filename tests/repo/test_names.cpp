// Type names are unique: a type that two headers define differently is undefined behaviour in a program that links
// both, which no compiler reports.
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

// Returns the types of a header as "namespace::name", without forward declarations and nested types.
std::set<std::string> types_of(const std::string& text) {
  static const std::regex line_of_type(R"(^(?:struct|class|enum class) (\w+)[^;]*\{)"),
      line_of_namespace(R"(^namespace ([\w:]+) \{)");
  std::set<std::string> types;
  std::string space;
  for (const std::string& line : split_lines(text)) {
    std::smatch match;
    if (std::regex_search(line, match, line_of_namespace)) space = match[1];
    if (std::regex_search(line, match, line_of_type)) types.insert(space + "::" + std::string(match[1]));
  }
  return types;
}

std::string twice(const std::map<std::string, std::string>& headers) {
  std::map<std::string, std::string> first;
  std::string problems;
  for (const auto& [path, text] : headers)
    for (const std::string& type : types_of(text)) {
      const auto [it, is_new] = first.emplace(type, path);
      if (!is_new) problems += type + ": " + it->second + " and " + path + "\n";
    }
  return problems;
}

TEST_CASE("no type is defined in two headers") {
  std::map<std::string, std::string> headers;
  for (const std::string& path : project_files({"lib", "cuda", "apps"}, {".h"}))
    headers[path] = read_project_file(path);
  REQUIRE(headers.size() > 100);
  CHECK(twice(headers) == "");
  headers["planted.h"] = "namespace fp {\nstruct Tensor {\n};\n}\n";
  CHECK(twice(headers).find("fp::Tensor") != std::string::npos);
}

}  // namespace
}  // namespace fp::test
