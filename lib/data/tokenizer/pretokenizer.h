// Splits text into the pieces ("words") that byte-pair merges never cross.
#pragma once

#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "data/text/regex.h"

namespace fp {

// GPT-2's pattern. The published pattern's \s is Unicode's White_Space, which differs slightly from PCRE2's \s.
inline constexpr const char* kGpt2Pattern =
    R"('(?:[stmd]|re|ve|ll)| ?\p{L}++| ?\p{N}++| ?[^\p{White_Space}\p{L}\p{N}]++)"
    R"(|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}++)";

// Splits text by one pattern (null: no split) on one thread. Every byte of the text is in exactly one piece: text that
// the pattern does not match forms pieces of its own, and so does each run of ill-formed UTF-8, which the pattern never
// sees.
class PieceSplitter {
 public:
  explicit PieceSplitter(const Regex* pattern) {
    if (pattern) matcher_.emplace(*pattern);
  }

  // Calls f(piece) for each piece from left to right.
  template <class F>
  void for_each(std::string_view text, F&& f) {
    utf8_stretches(
        text, [&](std::string_view valid) { split_valid(valid, f); }, f);
  }

 private:
  template <class F>
  void split_valid(std::string_view text, F&& f) {
    if (!matcher_) return f(text);
    size_t at = 0;
    while (at < text.size()) {
      const auto match = matcher_->find(text, at);
      const size_t begin = match ? match->begin : text.size();
      if (begin > at) f(text.substr(at, begin - at));
      if (!match) return;
      f(text.substr(begin, match->end - begin));
      at = match->end;
    }
  }

  std::optional<RegexMatcher> matcher_;
};

}  // namespace fp
