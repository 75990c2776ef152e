// Names with numbers in them and a part that may be missing: "[transformer.]h.{layer}.ln_1.weight" stands for
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
  // Whether numbers in names may begin with zeros: a name with them cannot be told from its numbers.
  enum class Zeros : uint8_t { refused, allowed };

  // ConfigError with what is wrong with `text` and what would be legal; where it stands is for the caller to say.
  explicit NamePattern(std::string_view text);

  const std::string& text() const { return text_; }
  // The numbers by name; the same in every spelling.
  const std::set<std::string, std::less<>>& numbers() const { return numbers_; }
  bool has_option() const { return spellings_.size() > 1; }

  // Its numbers, where the pattern stands for `name`.
  std::optional<Numbers> match(std::string_view name, Zeros = Zeros::refused) const;
  // What the pattern stands for with these numbers: the spelling with the optional part, then the one without.
  std::vector<std::string> names(const Numbers&) const;
  // Whether there is a name that both stand for.
  bool overlaps(const NamePattern&) const;

 private:
  // A number, or literal text: a whole run of digits, or text without any.
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
