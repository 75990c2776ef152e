// Rules for text files: no tabs or trailing blanks, no paths of one machine, and a file comment in every header.
#include <catch2/catch.hpp>
#include <regex>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

const std::vector<std::string> text_endings = {
    ".h",    ".cpp",  ".cu",  ".cuh", ".py",   ".md",  ".cmake",         ".txt",
    ".yaml", ".json", ".yml", "run",  "setup", "test", "CMakeLists.txt", "quickstart"};

void check_text(const std::string& path, const std::string& text, Problems& problems) {
  // Folders that belong to one machine; the folder names stand in a group so that this line does not match itself.
  static const std::regex machine_path(R"((^|[^\w.])/(work|root|home|Users|mnt|media)/\w)");
  if (!text.empty() && text.back() != '\n') problems.add(path, "no line break at the end");
  int number = 0;
  for (const std::string& line : split_lines(text)) {
    const std::string place = "line " + std::to_string(++number) + " ";
    if (line.find('\t') != std::string::npos) problems.add(path, place + "has a tab");
    if (!line.empty() && (line.back() == ' ' || line.back() == '\r')) problems.add(path, place + "ends in blanks");
    if (std::regex_search(line, machine_path)) problems.add(path, place + "names a path of one machine: " + trim(line));
  }
}

void check_header(const std::string& path, const std::string& text, Problems& problems) {
  if (!text.starts_with("// ")) problems.add(path, "does not start with a comment that says what it holds");
  if (strip_comments_and_literals(text).find("#pragma once\n") == std::string::npos)
    problems.add(path, "no #pragma once");
}

TEST_CASE("text files are tidy and belong to no machine") {
  Problems problems("text");
  const auto files = project_files({""}, text_endings);
  REQUIRE(files.size() > 20);
  for (const std::string& path : files) check_text(path, read_project_file(path), problems);
  CHECK(problems.report() == "");
}

TEST_CASE("every header has a file comment and #pragma once") {
  Problems problems("headers");
  for (const std::string& path : project_files({"lib", "apps", "tests", "cuda"}, {".h", ".cuh"})) {
    check_header(path, read_project_file(path), problems);
  }
  CHECK(problems.report() == "");
}

TEST_CASE("the text check finds tabs, trailing blanks and machine paths") {
  const auto found = [](const std::string& text) {
    Problems problems("none");
    check_text("file", text, problems);
    return problems.report();
  };
  CHECK(found("tidy /usr/bin/env and a/home/x\n") == "");
  CHECK(found("a\tb\n") == "file: line 1 has a tab\n");
  CHECK(found("a\nb \n") == "file: line 2 ends in blanks\n");
  CHECK(found("a\r\n") == "file: line 1 ends in blanks\n");
  CHECK(found("a") == "file: no line break at the end\n");
  CHECK(found("see " + std::string("/ho") + "me/someone/x\n").find("path of one machine") != std::string::npos);

  Problems headers("none");
  check_header("good.h", "// What it is.\n#pragma once\n", headers);
  CHECK(headers.report() == "");
  check_header("bad.h", "#include <x>\n// #pragma once\n", headers);
  CHECK(split_lines(headers.report()).size() == 2);
}

}  // namespace
}  // namespace fp::test
