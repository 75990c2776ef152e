// Divides a Jinja template into texts and tags, and tags into tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fp::jinja {

struct Token {
  enum class Kind { name, text, integer, number, sign, end };
  Kind kind = Kind::end;
  std::string text;
  int line = 0;
};

struct Piece {
  enum class Kind { text, output, statement };
  Kind kind = Kind::text;
  std::string text;
  std::vector<Token> tokens;  // of a tag; the last one is `end`
  int line = 0;
};

// Returns the pieces with white space trimmed as the tags say. Throws DataError naming `where` and the line for a tag
// that is not closed and for characters outside the subset.
std::vector<Piece> divide(std::string_view text, const std::string& where);

}  // namespace fp::jinja
