// Patterns of tensor names with numbers and an optional part: "[transformer.]h.{layer}.ln_1.weight" matches
// transformer.h.0.ln_1.weight, h.0.ln_1.weight, transformer.h.1.ln_1.weight and so on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

class NamePattern {
 public:
  using Numbers = std::map<std::string, int64_t, std::less<>>;
  // Whether numbers in names may have leading zeros. With them, the numbers no longer determine the name.
  enum class Zeros : uint8_t { refused, allowed };

  // Throws ConfigError with what is wrong with `text` and what is legal; the caller adds where it was written.
  explicit NamePattern(std::string_view text);

  const std::string& text() const { return text_; }
  // Names of the numbers, without braces; the same with and without the optional part.
  const std::set<std::string, std::less<>>& numbers() const { return numbers_; }
  bool has_option() const { return spellings_.size() > 1; }

  // Returns the numbers in `name`, or nullopt if the pattern does not match it.
  std::optional<Numbers> match(std::string_view name, Zeros = Zeros::refused) const;
  // Returns the names that the pattern matches with these numbers: the one with the optional part, then, if it has an
  // optional part, the one without.
  std::vector<std::string> names(const Numbers&) const;
  // True if some name matches both patterns.
  bool overlaps(const NamePattern&) const;

 private:
  // A number, or literal text that is either a maximal run of digits or has no digits.
  struct Piece {
    bool number = false;
    std::string text;  // the number's name, or the literal
    bool digits() const;
  };
  using Spelling = std::vector<Piece>;
  static Spelling spelling_of(std::string_view text);
  static std::optional<Numbers> match(const Spelling&, std::string_view name, Zeros);
  static bool overlap(const Spelling&, const Spelling&);

  std::string text_;
  std::vector<Spelling> spellings_;
  std::set<std::string, std::less<>> numbers_;
};

}  // namespace fp
