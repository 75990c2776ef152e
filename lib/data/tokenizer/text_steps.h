// The steps applied to text before byte-pair encoding: the normalizers and pre-tokenizers of tokenizer.json, and
// SentencePiece's normalization, as one list. A step changes a text or splits it into pieces; each piece goes through
// the following steps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/regex.h"

namespace fp {

struct TextStep {
  enum class Kind {
    collapse_spaces,  // SentencePiece's remove_extra_whitespaces: no spaces at the ends, single ones inside
    nfc,              // Unicode normalization form C
    replace,          // replaces every match by `content`
    prepend,          // puts `content` before a text that is not empty
    split,
  };
  enum class Prepend { always, unless_there, at_start_unless_there };
  // The treatment of a split's matches. The text between matches always forms pieces; a merged match joins one of them.
  enum class Matches { removed, isolated, merged_with_previous, merged_with_next, contiguous };

  Kind kind = Kind::nfc;
  std::string literal;                   // replace, split: the text to match, unless there is a pattern
  std::shared_ptr<const Regex> pattern;  // null: `literal` is matched
  std::string content;
  Prepend prepend = Prepend::always;
  Matches matches = Matches::isolated;
  bool invert = false;  // split: matches and the text between them exchange roles
};

inline TextStep prepend_step(std::string content, TextStep::Prepend when) {
  TextStep step;
  step.kind = TextStep::Kind::prepend;
  step.content = std::move(content);
  step.prepend = when;
  return step;
}
inline TextStep replace_step(std::string literal, std::string content) {
  TextStep step;
  step.kind = TextStep::Kind::replace;
  step.literal = std::move(literal);
  step.content = std::move(content);
  return step;
}
inline TextStep split_step(std::shared_ptr<const Regex> pattern) {
  TextStep step;
  step.kind = TextStep::Kind::split;
  step.pattern = std::move(pattern);
  return step;
}

// Runs a list of steps on one thread. The list must outlive it.
class StepRunner {
 public:
  explicit StepRunner(const std::vector<TextStep>& steps);

  // Calls f(piece, at_start) for each piece of `text`, which must be well-formed UTF-8, from left to right; no piece is
  // empty. `at_start`: no part of the original text precedes it. A piece is valid until f returns.
  template <class F>
  void run(std::string_view text, bool at_start, F&& f) {
    go(0, text, at_start, f);
  }

 private:
  struct Span {
    size_t begin, end;
  };

  template <class F>
  void go(size_t i, std::string_view text, bool at_start, F& f) {
    if (text.empty()) return;
    if (i == steps_.size()) return f(text, at_start);
    if (steps_[i].kind != TextStep::Kind::split) return go(i + 1, changed(i, text, at_start), at_start, f);
    split(i, text, [&](Span piece) {
      go(i + 1, text.substr(piece.begin, piece.end - piece.begin), at_start && piece.begin == 0, f);
    });
  }
  // Calls f for the pieces of `text` by step i, merged as its `matches` say.
  template <class F>
  void split(size_t i, std::string_view text, F&& f) {
    using Matches = TextStep::Matches;
    const TextStep& step = steps_[i];
    if (step.matches == Matches::isolated) return parts(i, text, [&](Span part, bool) { f(part); });
    Span held{0, 0};  // the last piece, which the next part may still extend; empty: none
    bool held_is_match = false;
    parts(i, text, [&](Span part, bool match) {
      const bool joins = held.end > 0 && (step.matches == Matches::contiguous             ? held_is_match == match
                                          : step.matches == Matches::merged_with_previous ? match && !held_is_match
                                          : step.matches == Matches::merged_with_next     ? held_is_match && !match
                                                                                          : false);
      if (joins)
        part.begin = held.begin;
      else if (held.end > 0)
        f(held);
      held = step.matches == Matches::removed && match ? Span{0, 0} : part;
      held_is_match = match;
    });
    if (held.end > 0) f(held);
  }
  // Calls f(span, is_match) for the matches of step i and the text between them.
  template <class F>
  void parts(size_t i, std::string_view text, F&& f) {
    const bool invert = steps_[i].invert;
    size_t at = 0;
    while (at < text.size()) {
      const std::optional<Span> match = next_match(i, text, at);
      const size_t begin = match ? match->begin : text.size();
      if (begin > at) f(Span{at, begin}, invert);
      if (!match) return;
      f(*match, !invert);
      at = match->end;
    }
  }
  std::optional<Span> next_match(size_t i, std::string_view text, size_t from);
  std::string_view changed(size_t i, std::string_view text, bool at_start);

  const std::vector<TextStep>& steps_;
  std::vector<std::optional<RegexMatcher>> matchers_;  // one per step
  std::vector<std::string> buffers_;                   // one per step
};

}  // namespace fp
