// Everything that is wrong with a run spec, collected so that a person sees all of it at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp {

// Where a value was written: a file (line and column from 1), or a "--set a.b=c" (line 0).
struct Place {
  std::string source;
  int line = 0;
  int column = 0;

  // "file:line:column", or the source alone when there is no line; empty of a text that no person has.
  std::string str() const;
};

class Problems {
 public:
  void add(Place place, std::string message);
  void append(const Problems& others);
  bool empty() const { return list_.empty(); }
  // ConfigError with one "place: message" line per problem, ordered by place within each source.
  void throw_if_any() const;

 private:
  struct Problem {
    Place place;
    std::string message;
  };
  std::vector<Problem> list_;
};

// The candidate nearest to `word` by edit distance (insert, delete, replace, swap neighbours), if it is near enough to
// be meant: at most a third of the longer word. Empty when none is.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// "a, b, c".
std::string joined(const std::vector<std::string_view>& words);

// A value as it appears in messages: at most 60 characters, control characters escaped.
std::string shown(std::string_view value);

}  // namespace fp
