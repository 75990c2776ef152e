// Added tokens: texts such as "<|user|>" that are replaced by one id before any other step sees them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/prefix_matcher.h"

namespace fp {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;      // decodes to no text
  bool normalized = false;   // matched after normalization, in its normalized form
  bool single_word = false;  // matched only where no word character is adjacent
  bool lstrip = false;       // the match includes the white space before it
  bool rstrip = false;       // the match includes the white space after it
};

// Finds added tokens in a text: the leftmost match first, and the longest of several at one position.
class AddedTokenFinder {
 public:
  // Adds a token. `written` is the text to match; it must not be empty.
  void add(const AddedToken& token, std::string_view written) {
    matcher_.add(written, static_cast<int32_t>(tokens_.size()));
    tokens_.push_back(token);
  }

  // Appends the ids of the tokens in `text`, and calls f(segment, at_start) for the text between them, in order.
  template <class F>
  void around(std::string_view text, bool at_start, std::vector<int32_t>& ids, F&& f) const {
    if (matcher_.empty()) return f(text, at_start);
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const PrefixMatcher::Match match = matcher_.longest(text.substr(at));
      if (match.length == 0) {
        ++at;
        continue;
      }
      const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
      size_t begin = at, end = at + match.length;
      at = end;
      if (token.single_word && !stands_alone(text, begin, end)) continue;
      if (token.lstrip) begin = begin > done ? begin - white_space_before(text.substr(done, begin - done)) : done;
      if (token.rstrip) end += white_space_after(text.substr(end));
      if (done < begin) f(text.substr(done, begin - done), at_start && done == 0);
      if (begin < end) ids.push_back(token.id);  // else the white space of the previous token includes it
      // As in Hugging Face's tokenizers, the search continues at `end` even though a token that begins with white space
      // could begin earlier.
      done = end;
    }
    if (done < text.size()) f(text.substr(done), at_start && done == 0);
  }

 private:
  static bool stands_alone(std::string_view text, size_t begin, size_t end);
  static size_t white_space_before(std::string_view text);
  static size_t white_space_after(std::string_view text);

  PrefixMatcher matcher_;
  std::vector<AddedToken> tokens_;
};

}  // namespace fp
