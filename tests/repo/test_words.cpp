// The words of identifiers and comments: docs/glossary.md lists those that are not used.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <regex>
#include <set>

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

// A member of std::filesystem::path has a name of its own: path.stem().
void check_identifiers(const std::string& path, const std::string& text, const Words& refused, Problems& problems) {
  Words seen;
  for_each_token(strip_comments_and_literals(text), [&](const std::string& token, char before) {
    if ((before == '.' && token == "stem") || !seen.insert(token).second) return;
    for (const std::string& word : words_of_identifier(token))
      if (refused.count(word)) problems.add(path, "identifier " + token + " has the word '" + word + "'");
  });
}

// The text of a comment line; "" for any other line.
std::string comment_of(const std::string& line) {
  const std::string text = trim(line);
  return text.starts_with("// ") ? text.substr(3) : "";
}

void check_comments(const std::string& path, const std::string& text, const Words& refused, Problems& problems) {
  std::string before;
  int number = 0;
  for (const std::string& line : split_lines(text)) {
    const std::string comment = comment_of(line), place = "line " + std::to_string(++number);
    if (before.empty() && (comment.starts_with("Of ") || comment.starts_with("What ")))
      problems.add(path, place + ": a comment begins with \"" + comment.substr(0, comment.find(' ')) + "\"");
    for_each_token(comment, [&](const std::string& word, char) {
      if (refused.count(word)) problems.add(path, place + ": the comment has the word '" + word + "'");
    });
    before = comment;
  }
}

TEST_CASE("identifiers and header comments use the words of the glossary") {
  const Words refused = refused_words(read_project_file("docs/glossary.md"));
  REQUIRE(refused.size() >= 10);
  Problems problems("words");
  for (const std::string& path : project_files({"lib", "apps", "cuda"}, {".h", ".cpp", ".cu"})) {
    const std::string text = read_project_file(path);
    check_identifiers(path, text, refused, problems);
    if (path.ends_with(".h")) check_comments(path, text, refused, problems);
  }
  CHECK(problems.report() == "");
}

TEST_CASE("the check of words finds refused words and comments without a subject") {
  const auto found = [](const std::string& text) {
    Problems problems("none");
    check_identifiers("file", text, {"deal", "stem"}, problems);
    check_comments("file", text, {"deal", "stem"}, problems);
    return problems.report();
  };
  CHECK(
      found("// Splits n items.\n// What is left is padding.\nint ideal = path.stem().size();  // Of no interest\n") ==
      "");
  CHECK(found("// Of a tensor.\nint x;\n") == "file: line 1: a comment begins with \"Of\"\n");
  CHECK(found("int x;\n  // What it holds.\n") == "file: line 2: a comment begins with \"What\"\n");
  CHECK(found("// We deal with it.\n") == "file: line 1: the comment has the word 'deal'\n");
  CHECK(found("int deal_heads(int);\n") == "file: identifier deal_heads has the word 'deal'\n");
  CHECK(found("class StemUnit;\n") == "file: identifier StemUnit has the word 'stem'\n");
  CHECK(refused_words("A test refuses these words: `a`,\n`bc`.\nAnd `d`.\n") == Words{"a", "bc"});
}

}  // namespace
}  // namespace fp::test
