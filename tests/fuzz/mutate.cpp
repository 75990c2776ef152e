#include "mutate.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/philox.h"

namespace fp_fuzz {
namespace {

using namespace std::string_view_literals;

// Texts that are difficult for parsers: punctuation, limits of numbers, edge cases of UTF-8, paths out of the folder.
constexpr std::string_view kTokens[] = {"{"sv,
                                        "}"sv,
                                        "["sv,
                                        "]"sv,
                                        "("sv,
                                        ")"sv,
                                        "\""sv,
                                        "'"sv,
                                        "\\"sv,
                                        ","sv,
                                        ":"sv,
                                        ": "sv,
                                        ";"sv,
                                        "#"sv,
                                        "&a "sv,
                                        "*a"sv,
                                        "<<: "sv,
                                        "!!binary "sv,
                                        "- "sv,
                                        "---\n"sv,
                                        "|\n"sv,
                                        ">\n"sv,
                                        "%"sv,
                                        "{}"sv,
                                        "[]"sv,
                                        "\"\""sv,
                                        "\n"sv,
                                        "\r\n"sv,
                                        "\t"sv,
                                        " "sv,
                                        "\0"sv,
                                        "null"sv,
                                        "true"sv,
                                        "false"sv,
                                        "nan"sv,
                                        "-inf"sv,
                                        "0"sv,
                                        "-0"sv,
                                        "1"sv,
                                        "-1"sv,
                                        "0.5"sv,
                                        "1e999"sv,
                                        "-1e999"sv,
                                        "1e-999"sv,
                                        "0x10"sv,
                                        "017"sv,
                                        "1_000"sv,
                                        "127"sv,
                                        "128"sv,
                                        "255"sv,
                                        "256"sv,
                                        "32768"sv,
                                        "65536"sv,
                                        "2147483647"sv,
                                        "2147483648"sv,
                                        "-2147483649"sv,
                                        "4294967295"sv,
                                        "4294967296"sv,
                                        "9007199254740993"sv,
                                        "9223372036854775807"sv,
                                        "9223372036854775808"sv,
                                        "-9223372036854775808"sv,
                                        "18446744073709551615"sv,
                                        "18446744073709551616"sv,
                                        "100000000000000000000000000000000000000000"sv,
                                        "3.14159265358979323846264338327950288"sv,
                                        "\\u0000"sv,
                                        "\\ud800"sv,
                                        "\\udc00"sv,
                                        "\\ud83d\\ude00"sv,
                                        "\xEF\xBB\xBF"sv,
                                        "\xC0\x80"sv,
                                        "\xED\xA0\x80"sv,
                                        "\xF4\x8F\xBF\xBF"sv,
                                        "\xF4\x90\x80\x80"sv,
                                        "\xE2\x96\x81"sv,
                                        "\xF0\x9F\x98\x80"sv,
                                        "\xC3"sv,
                                        "\xFF"sv,
                                        "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"sv,
                                        "\0\0\0\0\0\0\0\0"sv,
                                        "\xFF\xFF\xFF\x7F"sv,
                                        "\0\0\0\x80"sv,
                                        "../"sv,
                                        "/"sv,
                                        "."sv,
                                        "\x1B[2J"sv,
                                        "%s%n"sv,
                                        "${HOME}"sv,
                                        "{\"a\":"sv,
                                        "[["sv};

constexpr size_t kLongestRun = 20000;  // maximum repetitions of a token: deeper nesting than any parser may accept

// The random numbers of one input.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t number) : key_(split(fp::Philox::mix(seed))), number_(split(number)) {}

  // Returns 0 to n - 1; 0 for n = 0.
  size_t below(size_t n) {
    if (n == 0) return 0;
    if (left_ == 0) {
      words_ = fp::Philox::block({number_[0], number_[1], drawn_++, 0}, key_);
      left_ = words_.size();
    }
    // Uses two words, to cover any size.
    const uint64_t high = words_[--left_], low = words_[--left_];
    return static_cast<size_t>((high << 32 | low) % n);
  }
  bool one_in(size_t n) { return below(n) == 0; }
  // Returns 1 to 2^bits; each order of magnitude is equally likely.
  size_t magnitude(size_t bits) {
    const size_t scale = size_t{1} << below(bits + 1);
    return scale / 2 + 1 + below(scale - scale / 2);
  }

 private:
  static fp::Philox::Key split(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }
  fp::Philox::Key key_, number_;
  fp::Philox::Counter words_{};
  uint32_t drawn_ = 0;
  size_t left_ = 0;
};

struct Range {
  size_t begin = 0, length = 0;
};

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-'; }

// Returns the range of a word, a line, a few bytes or nothing, at a random position.
Range range_in(std::string_view text, Dice& dice) {
  const size_t at = dice.below(text.size() + 1);
  switch (dice.below(4)) {
    case 0:
      return {at, 0};
    case 1: {
      size_t begin = std::min(text.find('\n', at), text.size());
      begin = begin == text.size() ? 0 : begin + 1;
      return {begin, std::min(text.find('\n', begin), text.size() - 1) + 1 - begin};
    }
    case 2: {
      size_t begin = at, end = at;
      while (begin > 0 && in_word(text[begin - 1])) --begin;
      while (end < text.size() && in_word(text[end])) ++end;
      return {begin, end - begin};
    }
    default:
      return {at, std::min(dice.magnitude(8), text.size() - at)};
  }
}

std::string repeated(std::string_view part, size_t times) {
  std::string run;
  for (size_t i = 0; i < times && run.size() < Mutator::kLongest; ++i) run += part;
  return run;
}

// Returns a random replacement for a range.
std::string replacement(const std::string& text, const std::string& other, Dice& dice) {
  const std::string_view token = kTokens[dice.below(std::size(kTokens))];
  switch (dice.below(8)) {
    case 0:
      return {};
    case 1:
    case 2: {
      const std::string& source = dice.one_in(2) ? text : other;
      const Range range = range_in(source, dice);
      return source.substr(range.begin, range.length);
    }
    case 3:
      return repeated(token, dice.one_in(16) ? dice.below(kLongestRun) : dice.magnitude(6));
    case 4:
      return std::string(dice.magnitude(6), static_cast<char>(dice.below(256)));
    default:
      return std::string(token);
  }
}

void mutate(std::string& text, const std::string& other, Dice& dice) {
  const size_t at = dice.below(text.size());
  switch (dice.below(16)) {
    case 0:
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
      return;
    case 2:
      if (!text.empty()) text[at] = static_cast<char>(dice.below(256));
      return;
    case 3:
      if (dice.one_in(4)) text.resize(at);
      return;
    case 4:
      text = text.substr(0, at) + other.substr(dice.below(other.size()));
      return;
    case 5: {
      const Range range = range_in(text, dice);
      text.insert(range.begin, repeated(text.substr(range.begin, range.length), dice.magnitude(8)));
      return;
    }
    default: {
      const Range range = range_in(text, dice);
      text.replace(range.begin, range.length, replacement(text, other, dice));
    }
  }
}

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, uint64_t seed) : corpus_(std::move(corpus)), seed_(seed) {}

std::string Mutator::input(uint64_t number) const {
  Dice dice(seed_, number);
  std::string text = corpus_[dice.below(corpus_.size())];
  for (size_t changes = dice.magnitude(4); changes > 0; --changes) {
    mutate(text, corpus_[dice.below(corpus_.size())], dice);
    if (text.size() > kLongest) text.resize(kLongest);
  }
  return text;
}

}  // namespace fp_fuzz
