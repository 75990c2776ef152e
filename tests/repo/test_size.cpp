// Files and functions stay small enough to read: a file of the program 400 lines, a function about 80.
#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

constexpr int max_file_lines = 400;
constexpr int max_function_lines = 80;

struct FunctionSpan {
  std::string name;
  int lines = 0;
};

// Preprocessor lines, and all branches of an #if but the first, would unbalance the braces: blank them.
std::string without_preprocessor(const std::string& code) {
  std::string out;
  bool continued = false;
  std::vector<bool> skipping;  // one entry per open #if
  for (const std::string& line : split_lines(code)) {
    const std::string text = trim(line);
    const bool directive = continued || text.starts_with("#");
    if (!continued && text.starts_with("#if")) skipping.push_back(false);
    if (!continued && (text.starts_with("#el")) && !skipping.empty()) skipping.back() = true;
    if (!continued && text.starts_with("#endif") && !skipping.empty()) skipping.pop_back();
    continued = directive && text.ends_with("\\");
    const bool skipped = std::find(skipping.begin(), skipping.end(), true) != skipping.end();
    out += (directive || skipped ? "" : line) + "\n";
  }
  return out;
}

// Returns whether a brace opens a namespace or class, from the text between it and the previous ';', '{' or '}'.
bool opens_scope(const std::string& head) {
  static const std::regex scope(R"(\b(namespace|class|struct|union|enum|extern)\b)");
  return std::regex_search(head, scope) && head.find('(') == std::string::npos;
}

// A simple brace counter: finds the outermost braces that follow a parameter list and belong to no namespace or class.
std::vector<FunctionSpan> functions_of(const std::string& text) {
  static const std::regex name_before_parameters(R"(([~\w:]+|operator\S+)\s*\()");
  const std::string code = without_preprocessor(strip_comments_and_literals(text));
  std::vector<FunctionSpan> functions;
  std::string head;
  int line = 1, head_line = 1, depth_in_function = 0;
  for (const char c : code) {
    if (c == '\n') ++line;
    if (depth_in_function > 0) {
      if (c == '{') ++depth_in_function;
      if (c == '}' && --depth_in_function == 0) functions.back().lines = line - head_line + 1, head.clear();
    } else if (c == '{' && !opens_scope(head)) {
      std::smatch match;
      const bool named = std::regex_search(head, match, name_before_parameters);
      functions.push_back({named ? match[1].str() : trim(head).substr(0, 40), 0});
      depth_in_function = 1;
    } else if (c == ';' || c == '{' || c == '}') {
      head.clear();
    } else if (!(head.empty() && std::isspace(static_cast<unsigned char>(c)))) {
      if (head.empty()) head_line = line;
      head += c;
    }
  }
  return functions;
}

TEST_CASE("files and functions are short") {
  Problems problems("size");
  for (const std::string& path : project_files({"lib", "apps", "cuda"}, {".h", ".cpp", ".cu", ".cuh"})) {
    const std::string text = read_project_file(path);
    const auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines > max_file_lines) problems.add(path, std::to_string(lines) + " lines, more than 400");
    for (const FunctionSpan& f : functions_of(text)) {
      if (f.lines <= max_function_lines) continue;
      problems.add(path + ":" + f.name, std::to_string(f.lines) + " lines in one function, more than 80");
    }
  }
  CHECK(problems.report() == "");
}

TEST_CASE("the brace counter finds functions and their lengths") {
  const std::string text = R"code(
#if FAST
int Matrix::rows(int n) {
#else
int Matrix::slow_rows(int n) {
#endif
  // } in a comment, '}' in a literal
  const char brace = '}', *s = "}}";
  const int million = 1'000'000;
  if (n) {
    return million;
  }
  return 0;
}
namespace a { class B { int get() const { return 1; } std::vector<int> v = {1, 2}; }; }
template <class T>
T twice(T x) {
  return x + x;
}
)code";
  const auto functions = functions_of(text);
  REQUIRE(functions.size() >= 3);
  CHECK(functions[0].name == "Matrix::rows");
  CHECK(functions[0].lines == 12);
  CHECK(functions[1].name == "get");
  CHECK(functions[1].lines == 1);
  CHECK(functions.back().name == "twice");
  CHECK(functions.back().lines == 4);
}

}  // namespace
}  // namespace fp::test
