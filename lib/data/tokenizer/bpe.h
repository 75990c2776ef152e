// Byte-pair encoding of one word: start from its bytes, then join the adjacent pair of lowest rank, leftmost first,
// until no pair of the merge list is left.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/pair_map.h"

namespace fp {

struct Merge {
  TokenPair pair;
  int32_t id;  // of the joined token
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
  };

  BpeModel() = default;
  // `byte_ids`: the token of each byte value; `merges` in rank order, each pair at most once.
  BpeModel(const std::array<int32_t, 256>& byte_ids, const std::vector<Merge>& merges);

  // Appends the ids of `word`, which has less than 2^31 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Joined {
    int32_t rank, id;
  };
  void consider(Scratch& scratch, int32_t position) const;

  std::array<int32_t, 256> byte_ids_{};
  PairMap<Joined> merges_;
};

}  // namespace fp
