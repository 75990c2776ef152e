// JSON from files is read within limits, which only lib/io/json.h has.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

constexpr const char* kReader = "lib/io/json.cpp";

// The names of nlohmann's types, and the aliases that a file defines for them.
std::set<std::string> json_types(const std::string& text) {
  static const std::regex alias(R"(using\s+(\w+)\s*=\s*(?:typename\s+)?nlohmann::\w*json\b)");
  std::set<std::string> names = {"json", "ordered_json"};
  for (auto m = std::sregex_iterator(text.begin(), text.end(), alias); m != std::sregex_iterator(); ++m)
    names.insert((*m)[1].str());
  return names;
}

void check_reads(const std::string& file, const std::string& source, const std::set<std::string>& types,
                 Problems& problems) {
  static const std::regex call(
      R"((\w+)\s*::\s*(parse|sax_parse|accept|from_cbor|from_msgpack|from_ubjson|from_bson)\s*\()");
  static const std::regex extraction(R"(>>\s*(\w*[jJ]son\w*)\s*[;)])");
  const auto occurs = [&](const std::string& type) { return source.find(type) != std::string::npos; };
  if (std::none_of(types.begin(), types.end(), occurs)) return;
  const std::string text = strip_comments_and_literals(source);
  for (auto m = std::sregex_iterator(text.begin(), text.end(), call); m != std::sregex_iterator(); ++m)
    if (types.count((*m)[1].str()) != 0)
      problems.add(file, "calls " + (*m)[1].str() + "::" + (*m)[2].str() + ", which knows no limits: use io/json.h");
  std::smatch m;
  if (std::regex_search(text, m, extraction)) problems.add(file, "reads " + m[1].str() + " by >>: use io/json.h");
}

TEST_CASE("JSON is only parsed by the reader with limits") {
  const auto files = project_files({"lib", "cuda", "apps"}, {".h", ".cpp", ".cu", ".cuh"});
  std::set<std::string> types;
  for (const std::string& file : files) types.merge(json_types(read_project_file(file)));
  CHECK(types.count("OrderedJson") == 1);
  Problems problems("json");
  for (const std::string& file : files)
    if (file != kReader) check_reads(file, read_project_file(file), types, problems);
  CHECK(problems.report() == "");
}

TEST_CASE("the check of JSON readers finds other parsers") {
  const std::set<std::string> types = json_types("using Out = nlohmann::ordered_json;\nusing nlohmann::json;\n");
  CHECK(types == std::set<std::string>{"json", "ordered_json", "Out"});
  const auto report = [&](const std::string& source) {
    Problems problems("json");
    check_reads("lib/x/y.cpp", source, types, problems);
    return problems.report();
  };
  CHECK(report("auto j = nlohmann::json::parse(text);").find("calls json::parse") != std::string::npos);
  CHECK(report("Out j = Out::parse(text, nullptr, false);").find("calls Out::parse") != std::string::npos);
  CHECK(report("json::sax_parse(a, b, &sax);").find("json::sax_parse") != std::string::npos);
  CHECK(report("std::ifstream in(file);\nin >> json;").find("by >>") != std::string::npos);
  CHECK(report("// json::parse(text)\nStamps::parse(text); parse_json(text, where); a >> n;").empty());
}

}  // namespace
}  // namespace fp::test
