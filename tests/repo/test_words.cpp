// The words of identifiers and comments: docs/glossary.md lists those that are not used.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

using Words = std::set<std::string>;

// The words in backticks between "refuses these words" and the end of that sentence.
Words refused_words(const std::string& glossary) {
  static const std::regex quoted("`([a-z]+)`");
  const size_t begin = glossary.find("refuses these words");
  const std::string sentence = glossary.substr(begin, glossary.find(".\n", begin) - begin);
  Words words;
  for (std::sregex_iterator it(sentence.begin(), sentence.end(), quoted), end; it != end; ++it) words.insert((*it)[1]);
  return words;
}

// "kQuickEstimate_error" as {"k", "quick", "estimate", "error"}.
Words words_of_identifier(const std::string& identifier) {
  Words words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.insert(word);
    word.clear();
  };
  for (const char c : identifier) {
    if (c == '_' || std::isupper(static_cast<unsigned char>(c)) != 0) finish();
    if (c != '_') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  finish();
  return words;
}

// Calls use(token, character before it) for each longest run of letters, digits and underscores. By hand, since
// std::regex takes seconds for all sources under the sanitizers.
template <class Use>
void for_each_token(const std::string& text, const Use& use) {
  const auto in_token = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t begin = 0; begin < text.size();) {
    const auto end = static_cast<size_t>(
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), in_token) - text.begin());
    if (end > begin) use(text.substr(begin, end - begin), begin > 0 ? text[begin - 1] : ' ');
    begin = end + 1;
  }
}

bool is_refused(const std::string& word, const Words& refused) {
  return refused.count(word) != 0 || (word.ends_with('s') && refused.count(word.substr(0, word.size() - 1)) != 0);
}

// Calls use(token, word) for each token of the text that has a refused word, once for each token. A member of
// std::filesystem::path has a name of its own: path.stem().
template <class Use>
void for_each_refused(const std::string& text, const Words& refused, const Use& use) {
  Words seen;
  for_each_token(text, [&](const std::string& token, char before) {
    if ((before == '.' && token == "stem") || !seen.insert(token).second) return;
    for (const std::string& word : words_of_identifier(token))
      if (is_refused(word, refused)) use(token, word);
  });
}

void check_identifiers(const std::string& path, const std::string& text, const Words& refused, Problems& problems) {
  for_each_refused(strip_comments_and_literals(text), refused, [&](const std::string& token, const std::string& word) {
    problems.add(path, "identifier " + token + " has the word '" + word + "'");
  });
}

// A comment goes on from the line above if that is one, too, alone or below the same column.
bool continues(const Comment& c, const Comment& above) {
  return c.alone && c.line == above.line + 1 && !above.text.empty() && (above.alone || c.column == above.column);
}

void check_comments(const std::string& path, const std::string& text, const Words& refused, Problems& problems) {
  Comment above;
  for (const Comment& c : comments_of(text)) {
    const std::string place = "line " + std::to_string(c.line);
    const std::string first = c.text.substr(0, c.text.find(' '));
    if (path.ends_with(".h") && !continues(c, above) && (first == "Of" || first == "What"))
      problems.add(path, place + ": a comment begins with \"" + first + "\"");
    for_each_refused(c.text, refused, [&](const std::string&, const std::string& word) {
      problems.add(path, place + ": the comment has the word '" + word + "'");
    });
    above = c;
  }
}

// Checks a script as a whole: code, comments and texts.
void check_script(const std::string& path, const std::string& text, const Words& refused, Problems& problems) {
  for_each_refused(text, refused, [&](const std::string& token, const std::string& word) {
    problems.add(path, token + " has the word '" + word + "'");
  });
}

TEST_CASE("identifiers, comments and scripts use the words of the glossary") {
  const Words refused = refused_words(read_project_file("docs/glossary.md"));
  REQUIRE(refused.size() >= 10);
  Problems problems("words");
  for (const std::string& path : project_files({"lib", "apps", "cuda", "tests"}, {".h", ".cpp", ".cu"})) {
    const std::string text = read_project_file(path);
    check_identifiers(path, text, refused, problems);
    check_comments(path, text, refused, problems);
  }
  for (const std::string& path : project_files())
    if (starts_with_folder(path, "scripts") || (starts_with_folder(path, "tests") && path.ends_with(".py")))
      check_script(path, read_project_file(path), refused, problems);
  CHECK(problems.report() == "");
}

// The names in backticks in the right-hand column of old-names.md.
std::vector<std::string> new_names(const std::string& page) {
  static const std::regex quoted("`([^`]+)`");
  std::vector<std::string> names;
  for (const std::string& line : split_lines(page)) {
    const size_t column = line.starts_with("| ") ? line.find(" | ") : std::string::npos;
    if (column == std::string::npos) continue;
    const std::string right = line.substr(column + 3);
    for (std::sregex_iterator it(right.begin(), right.end(), quoted), end; it != end; ++it) names.push_back((*it)[1]);
  }
  return names;
}

// Returns whether a name of old-names.md exists: "io/" and "io/json" as a folder and a header of lib/, "lm_head.h" as a
// file, and others, such as "Saver::Phase", by their last part as a token of the code.
bool exists_as_named(const std::string& name, const std::set<std::string>& tokens, const std::set<std::string>& files) {
  if (name.ends_with('/')) return exists_in_project("lib/" + name);
  if (name.find('/') != std::string::npos) return exists_in_project("lib/" + name + ".h");
  if (name.ends_with(".h")) return files.count(name) != 0;
  return tokens.count(name.substr(name.rfind(':') + 1)) != 0;  // npos + 1 is 0
}

TEST_CASE("every new name of old-names.md exists") {
  std::set<std::string> tokens, files;
  for (const std::string& path : project_files({"lib", "apps", "cuda"}, {".h", ".cpp", ".cu"})) {
    files.insert(path.substr(path.rfind('/') + 1));
    for_each_token(strip_comments_and_literals(read_project_file(path)),
                   [&](const std::string& token, char) { tokens.insert(token); });
  }
  const std::vector<std::string> names = new_names(read_project_file("docs/old-names.md"));
  CHECK(names.size() > 80);
  Problems problems("old names");
  for (const std::string& name : names)
    if (!exists_as_named(name, tokens, files)) problems.add("docs/old-names.md", "there is no " + name);
  CHECK(problems.report() == "");
  CHECK(new_names("| old | new |\n|---|---|\n| `a` x | `B::c`, `d/e` |\n") == std::vector<std::string>{"B::c", "d/e"});
  CHECK(exists_as_named("B::c", {"c"}, {}));
  CHECK_FALSE(exists_as_named("d/e", {"e"}, {"e.h"}));
}

TEST_CASE("the check of words finds refused words and comments without a subject") {
  const auto found = [](const std::string& text) {
    Problems problems("none");
    check_identifiers("a.h", text, {"deal", "stem"}, problems);
    check_comments("a.h", text, {"deal", "stem"}, problems);
    return problems.report();
  };
  CHECK(found("// Splits n items.\n// What is left is padding.\nint ideal = path.stem().size();  // of interest\n") ==
        "");
  CHECK(found("int x;  // Number of items.\n        // What is left is padding.\n") == "");
  CHECK(found("f(\"// Of a text\", \"deal\");\n") == "");
  CHECK(found("// Of a tensor.\nint x;\n") == "a.h: line 1: a comment begins with \"Of\"\n");
  CHECK(found("int x;\n  // What it holds.\n") == "a.h: line 2: a comment begins with \"What\"\n");
  CHECK(found("int x;  // What it holds.\n") == "a.h: line 1: a comment begins with \"What\"\n");
  CHECK(found("int x;  // Number of items.\n// Of y.\n") == "a.h: line 2: a comment begins with \"Of\"\n");
  CHECK(found("// We deal with it.\n") == "a.h: line 1: the comment has the word 'deal'\n");
  CHECK(found("int x;  // two deals\n") == "a.h: line 1: the comment has the word 'deals'\n");
  CHECK(found("int deal_heads(int);\n") == "a.h: identifier deal_heads has the word 'deal'\n");
  CHECK(found("class StemsUnit;\n") == "a.h: identifier StemsUnit has the word 'stems'\n");
  Problems script("none");
  check_script("a.py", "def deals(p):  # a deal\n    return p.stem\n", {"deal", "stem"}, script);
  CHECK(script.report() == "a.py: deals has the word 'deals'\na.py: deal has the word 'deal'\n");
  CHECK(refused_words("A test refuses these words: `a`,\n`bc`.\nAnd `d`.\n") == Words{"a", "bc"});
}

}  // namespace
}  // namespace fp::test
