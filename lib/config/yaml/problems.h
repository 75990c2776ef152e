// Collects the mistakes of a document, so that all of them are reported at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shown.h"

namespace fp {

// Where a value was written: in a file (line and column from 1) or in a "--set a.b=c" (line 0).
struct Place {
  std::string source;
  int line = 0;
  int column = 0;

  // Returns "file:line:column", or the source alone if there is no line; empty for text made by code.
  std::string str() const;
};

class Problems {
 public:
  void add(Place place, std::string message);
  void append(const Problems& others);
  bool empty() const { return list_.empty(); }
  // Throws ConfigError with one "place: message" line per problem, ordered by source and place: the first 50, then
  // "... and 180 more".
  void throw_if_any() const;

 private:
  struct Problem {
    Place place;
    std::string message;
  };
  std::vector<Problem> list_;
};

// Returns the candidate nearest to `word` by edit distance (insert, delete, replace, swap neighbours), for "did you
// mean". Its distance is at most a third of the longer word, or one word contains the other. Empty if no candidate is
// near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// Returns "a, b, c".
std::string joined(const std::vector<std::string_view>& words);

}  // namespace fp
