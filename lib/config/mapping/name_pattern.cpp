#include "config/mapping/name_pattern.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/yaml/problems.h"
#include "config/yaml/scalar.h"

namespace fp {
namespace {

constexpr size_t kMaxDigits = 9;

bool is_number_name(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

size_t run_of_digits(std::string_view s) {
  return static_cast<size_t>(std::find_if_not(s.begin(), s.end(), is_digit) - s.begin());
}

[[noreturn]] void refuse(const std::string& what) {
  throw ConfigError(what +
                    "; legal: a name, with {layer} or another word in braces for each number in it, and at most one "
                    "part in [brackets] that may be missing");
}

// Returns "abc" and "ac" for "a[b]c".
std::vector<std::string> without_brackets(std::string_view text) {
  const size_t open = text.find('['), close = text.find(']');
  if (open == text.npos && close == text.npos) return {std::string(text)};
  if (open == text.npos || close == text.npos || close < open || text.find_first_of("[]", open + 1) != close ||
      text.find_first_of("[]", close + 1) != text.npos)
    refuse("its brackets are not one matching pair");
  const std::string before(text.substr(0, open)), inside(text.substr(open + 1, close - open - 1)),
      after(text.substr(close + 1));
  if (inside.empty()) refuse("its brackets are empty");
  return {before + inside + after, before + after};
}

}  // namespace

bool NamePattern::Piece::digits() const { return !number && is_digit(text.front()); }

NamePattern::NamePattern(std::string_view text) : text_(text) {
  for (const std::string& spelling : without_brackets(text)) spellings_.push_back(spelling_of(spelling));
  const auto numbers_in = [](const Spelling& s) {
    std::set<std::string, std::less<>> found;
    for (const Piece& p : s)
      if (p.number && !found.insert(p.text).second) refuse("{" + p.text + "} occurs twice");
    return found;
  };
  numbers_ = numbers_in(spellings_.front());
  if (numbers_in(spellings_.back()) != numbers_) refuse("the optional part in brackets must not contain a number");
}

NamePattern::Spelling NamePattern::spelling_of(std::string_view text) {
  Spelling pieces;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    Piece piece;
    size_t length = 0;
    if (rest.front() == '{') {
      const size_t close = rest.find('}');
      piece = {true, std::string(rest.substr(1, close == rest.npos ? close : close - 1))};
      if (close == rest.npos) refuse("a brace is not closed");
      if (!is_number_name(piece.text))
        refuse(fmt::format("'{{{}}}' is not the name of a number, which has only a to z and _", shown(piece.text)));
      length = close + 1;
    } else {
      length = is_digit(rest.front()) ? run_of_digits(rest) : std::min(rest.find_first_of("{}0123456789"), rest.size());
      if (length == 0) refuse("a brace is not opened");
      piece.text = rest.substr(0, length);
    }
    const auto holds_digits = [](const Piece& p) { return p.number || p.digits(); };
    if (!pieces.empty() && holds_digits(pieces.back()) && holds_digits(piece))
      refuse("a number is next to another number or a digit");
    pieces.push_back(std::move(piece));
    at += length;
  }
  if (pieces.empty()) refuse("it is empty");
  return pieces;
}

std::optional<NamePattern::Numbers> NamePattern::match(const Spelling& spelling, std::string_view name, Zeros zeros) {
  Numbers numbers;
  for (const Piece& p : spelling) {
    size_t length = p.text.size();
    if (p.number) {
      length = run_of_digits(name);
      if (length == 0 || length > kMaxDigits) return std::nullopt;
      if (zeros == Zeros::refused && length > 1 && name.front() == '0') return std::nullopt;
      std::from_chars(name.data(), name.data() + length, numbers[p.text]);
    } else if (!name.starts_with(p.text)) {
      return std::nullopt;
    }
    name.remove_prefix(length);
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::optional<NamePattern::Numbers> NamePattern::match(std::string_view name, Zeros zeros) const {
  for (const Spelling& s : spellings_)
    if (auto numbers = match(s, name, zeros)) return numbers;
  return std::nullopt;
}

std::vector<std::string> NamePattern::names(const Numbers& numbers) const {
  std::vector<std::string> names;
  for (const Spelling& s : spellings_) {
    std::string& name = names.emplace_back();
    for (const Piece& p : s) name += p.number ? std::to_string(numbers.at(p.text)) : p.text;
  }
  return names;
}

// Numbers and runs of digits are never adjacent, so two spellings that match one name have corresponding pieces.
bool NamePattern::overlap(const Spelling& a, const Spelling& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Piece& x, const Piece& y) {
    if (x.number || y.number) return (x.number || x.digits()) && (y.number || y.digits());
    return x.text == y.text;
  });
}

bool NamePattern::overlaps(const NamePattern& other) const {
  return std::any_of(spellings_.begin(), spellings_.end(), [&](const Spelling& a) {
    return std::any_of(other.spellings_.begin(), other.spellings_.end(),
                       [&](const Spelling& b) { return overlap(a, b); });
  });
}

}  // namespace fp
