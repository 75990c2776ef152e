#include "data/tokenizer/oniguruma.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "data/text/regex.h"

namespace fp {
namespace {

// Word characters as Oniguruma defines them; outside a character class also Latin-1's superscripts and fractions.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kLatin1Numbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

class Translator {
 public:
  explicit Translator(const std::string& pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (in_class_)
        class_character(c);
      else if (c == '[')
        open_class();
      else if (c == '{')
        braces();
      else if (c == '(')
        group();
      else
        put(1);
    }
    // Ruby's ^ and $ match at every line.
    return "(?m)" + out_;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(fmt::format("regular expression '{}', character {}: {}", in_, at_ + 1, what));
  }
  void put(size_t n) {
    out_.append(in_, at_, n);
    at_ += n;
  }
  bool next_is(size_t offset, char c) const { return at_ + offset < in_.size() && in_[at_ + offset] == c; }

  void open_class() {
    in_class_ = true;
    const size_t opening = next_is(1, '^') ? 2 : 1;
    put(opening);
    if (next_is(0, ']')) put(1);  // a literal ]
  }
  void class_character(char c) {
    if (c == '[') fail("a class or POSIX name inside a class; legal: single characters, ranges, \\p{...}");
    if (c == '&' && next_is(1, '&')) fail("'&&' inside a class; legal: single characters, ranges, \\p{...}");
    if (c == ']') in_class_ = false;
    put(1);
  }

  // Letters that Oniguruma also matches with one character: "ss" with U+00DF, the others with ligatures.
  void check_folds() const {
    for (size_t i = at_; i + 1 < in_.size(); ++i) {
      const auto lower = [&](size_t k) { return static_cast<char>(std::tolower(static_cast<unsigned char>(in_[k]))); };
      for (const std::string_view pair : {"ss", "ff", "fi", "fl", "st"})
        if (lower(i) == pair[0] && lower(i + 1) == pair[1]) fail(fmt::format("\"{}\" after (?i", pair));
    }
  }

  // The options of (?i) or (?i:...): i has the same meaning in both syntaxes, m and s do not.
  void group() {
    if (next_is(1, '*')) fail("'(*', which only PCRE2 knows");
    size_t end = at_ + 2;
    while (next_is(1, '?') && end < in_.size() &&
           (std::isalpha(static_cast<unsigned char>(in_[end])) || in_[end] == '-'))
      ++end;
    const std::string flags = next_is(1, '?') ? in_.substr(at_ + 2, end - at_ - 2) : "";
    if (flags.starts_with('i')) check_folds();
    if (flags.find_first_not_of("i-") != std::string::npos) fail("options '" + flags + "'; legal: (?i) (?i:...) (?-i)");
    put(1);
  }

  // {n}, {n,} and {n,m} have the same meaning in both syntaxes; {,n} and a sign after the brace do not.
  void braces() {
    const size_t close = in_.find('}', at_);
    const std::string inside = close == std::string::npos ? "" : in_.substr(at_ + 1, close - at_ - 1);
    const bool counts = !inside.empty() && std::all_of(inside.begin(), inside.end(),
                                                       [](char c) { return c == ',' || (c >= '0' && c <= '9'); });
    if (!counts) {
      out_ += '\\';  // a literal brace
      return put(1);
    }
    if (inside[0] == ',') fail("{,n}; legal: {0,n}");
    put(close + 1 - at_);
    if (next_is(0, '+')) fail("'+' after {n,m}, which repeats the group in Oniguruma; legal: (?>...{n,m})");
    if (next_is(0, '?') && inside.find(',') == std::string::npos) fail("'?' after {n}; legal: (?:...{n})?");
  }

  void escape() {
    if (at_ + 1 == in_.size()) fail("a lone backslash at the end");
    const char c = in_[at_ + 1];
    const auto replace = [&](std::string_view outside, std::string_view inside) {
      if (in_class_ && inside.empty()) fail(fmt::format("\\{} inside a class", c));
      out_ += in_class_ ? inside : outside;
      at_ += 2;
    };
    switch (c) {
      case 's':
        return replace(R"(\p{White_Space})", R"(\p{White_Space})");
      case 'S':
        return replace(R"(\P{White_Space})", R"(\P{White_Space})");
      case 'w':
        return replace(fmt::format("[{}{}]", kWord, kLatin1Numbers), kWord);
      case 'W':
        return replace(fmt::format("[^{}{}]", kWord, kLatin1Numbers), "");
      case 'h':
        return replace("[0-9A-Fa-f]", "0-9A-Fa-f");
      case 'H':
        return replace("[^0-9A-Fa-f]", "");
      case 'v':
        return replace(R"(\x0B)", R"(\x0B)");
      case 'u':
        return code_point();
      case 'p':
      case 'P':
        return property();
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 'x':
        return put(2);
      case 'A':
      case 'z':
        if (!in_class_) return put(2);
        break;
      default:
        if (!std::isalnum(static_cast<unsigned char>(c))) return put(2);
    }
    fail(
        fmt::format("\\{}; legal escapes: \\s \\S \\w \\W \\d \\D \\h \\H \\n \\r \\t \\f \\v \\a \\e \\A \\z "
                    "\\p{{...}} \\P{{...}} \\xHH \\x{{H...}} \\uHHHH and marks",
                    c));
  }
  void code_point() {
    const std::string digits = in_.substr(at_ + 2, 4);
    if (digits.size() != 4 ||
        !std::all_of(digits.begin(), digits.end(), [](unsigned char d) { return std::isxdigit(d); }))
      fail("\\u needs four hexadecimal digits");
    out_ += "\\x{" + digits + "}";
    at_ += 6;
  }
  // In PCRE2 a script's name alone includes the script extensions; in Oniguruma it does not.
  void property() {
    const size_t close = next_is(2, '{') ? in_.find('}', at_) : std::string::npos;
    if (close == std::string::npos) fail("\\p needs a name in braces");
    std::string name = in_.substr(at_ + 3, close - at_ - 3);
    const std::string head = in_.substr(at_, 3);
    const std::string hat = name.starts_with('^') ? "^" : "";
    name.erase(0, hat.size());
    out_ += head + hat + (is_script(name) ? "sc:" : "") + name + "}";
    at_ = close + 1;
  }
  static bool is_script(const std::string& name) {
    if (name.size() <= 2) return false;
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalpha(c) || c == '_'; }))
      return false;
    try {
      Regex("\\p{sc:" + name + "}");
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

  const std::string& in_;
  size_t at_ = 0;
  std::string out_;
  bool in_class_ = false;
};

}  // namespace

std::string translate_oniguruma(const std::string& pattern) { return Translator(pattern).run(); }

}  // namespace fp
