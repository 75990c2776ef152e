// Byte-pair encoding of one word: starts from its symbols (bytes or characters) and repeatedly joins the adjacent pair
// of lowest rank, leftmost first, until no pair is in the merge table. Byte-level BPE, tiktoken and SentencePiece's BPE
// are this algorithm with different tables.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/pair_map.h"
#include "data/tokenizer/prefix_matcher.h"
#include "data/tokenizer/string_map.h"

namespace fp {

// Token ids are below this. The symbol of a character that is not a token is kMaxTokenIds + its code point.
inline constexpr int32_t kMaxTokenIds = 1 << 24;

struct Merge {
  TokenPair pair;
  int32_t id = 0;    // id of the joined token
  int32_t rank = 0;  // lower ranks first; equal ranks from left to right
};

struct BpeRules {
  enum class Symbols { bytes, characters };
  Symbols symbols = Symbols::bytes;
  // Symbols::bytes: the token of each byte value. Symbols::characters: the tokens that spell a character that is not a
  // token itself, or -1 throughout: such a character is then encoded as `unknown`.
  std::array<int32_t, 256> byte_ids{};
  std::vector<std::pair<char32_t, int32_t>> characters;      // tokens of single characters
  std::vector<Merge> merges;                                 // each pair at most once
  std::optional<int32_t> unknown;                            // required where a character can be unknown
  bool fuse_unknown = false;                                 // a run of unknown characters becomes one token
  std::vector<std::pair<std::string, int32_t>> whole_words;  // words encoded without merges (ignore_merges)
  std::vector<std::pair<std::string, int32_t>> frozen;       // matched first, never merged (user-defined pieces)
  std::vector<int32_t> unused;                               // intermediate tokens that are split again at the end
};

class BpeModel {
 public:
  // Scratch memory of one thread.
  struct Scratch {
    struct Symbol {
      int32_t id, prev, next;  // neighbours in the word, -1 at its ends
    };
    struct Candidate {
      int32_t rank, position;  // position: index of the left symbol
      TokenPair pair;
      int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::unordered_map<int32_t, TokenPair> halves;  // the last merge that gave each unused token
    std::vector<int32_t> pending;
  };

  BpeModel() = default;
  explicit BpeModel(const BpeRules& rules);

  // Appends the ids of `word`, which must be shorter than 2^31 bytes and, where symbols are characters, well-formed
  // UTF-8.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Joined {
    int32_t rank, id;
  };
  void lay_out(std::string_view word, Scratch& scratch) const;
  void join(Scratch& scratch) const;
  void consider(Scratch& scratch, int32_t position) const;
  void emit(Scratch& scratch, std::vector<int32_t>& ids) const;
  int32_t symbol_of(std::string_view character) const;

  BpeRules::Symbols kind_ = BpeRules::Symbols::bytes;
  std::array<int32_t, 256> byte_ids_{};
  std::array<int32_t, 128> ascii_{};
  PairMap<int32_t> characters_;  // (code point, 0) -> token
  PairMap<Joined> merges_;
  int32_t unknown_ = -1;
  bool fuse_unknown_ = false;
  StringMap<int32_t> whole_words_;
  PrefixMatcher frozen_;
  std::vector<bool> unused_;
};

}  // namespace fp
