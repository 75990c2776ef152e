// What happens to text before byte-pair encoding: the normalizers and pre-tokenizers of tokenizer.json, and
// SentencePiece's normalization, as one list of steps. A step changes a text or cuts it into pieces; each piece goes
// through the steps that follow.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/regex.h"

namespace fp {

struct TextStep {
  enum class Kind {
    collapse_spaces,  // SentencePiece's remove_extra_whitespaces: none at the ends, single ones inside
    nfc,              // Unicode normalization form C
    replace,          // every match by `content`
    prepend,          // `content` in front of a text that is not empty
    split,
  };
  enum class Prepend { always, unless_there, at_start_unless_there };
  // What a split does with its matches; they and the stretches between them are the pieces otherwise.
  enum class Matches { removed, isolated, merged_with_previous, merged_with_next, contiguous };

  Kind kind = Kind::nfc;
  std::string literal;                   // replace, split: what is looked for, unless there is a pattern
  std::shared_ptr<const Regex> pattern;  // null: the literal
  std::string content;
  Prepend prepend = Prepend::always;
  Matches matches = Matches::isolated;
  bool invert = false;  // split: what does not match counts as match
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

// Runs a list of steps on one thread; the list must outlive it.
class StepRunner {
 public:
  explicit StepRunner(const std::vector<TextStep>& steps);

  // Calls f(piece, at_start) for each piece of `text`, which is well-formed UTF-8, from left to right; no piece is
  // empty. `at_start`: nothing of the original text stands before it. A piece is good until f returns.
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
  // Pieces of text by step i, merged as the step says.
  template <class F>
  void split(size_t i, std::string_view text, F&& f) {
    using Matches = TextStep::Matches;
    const TextStep& step = steps_[i];
    if (step.matches == Matches::isolated) return parts(i, text, [&](Span part, bool) { f(part); });
    Span held{0, 0};  // may still grow by what follows; empty: none
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
  // Matches of step i and the stretches between them.
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
  std::vector<std::optional<RegexMatcher>> matchers_;  // one a step
  std::vector<std::string> buffers_;                   // one a step
};

}  // namespace fp
