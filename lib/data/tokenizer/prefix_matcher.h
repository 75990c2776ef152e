// Finds the longest of a set of texts that is a prefix of a given text. A trie over bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer/pair_map.h"

namespace fp {

class PrefixMatcher {
 public:
  struct Match {
    size_t length = 0;  // 0: none
    int32_t value = -1;
  };

  // Adds a text, which must not be empty, with a value, which must not be negative. The first of equal texts is kept.
  void add(std::string_view text, int32_t value) {
    starts_[static_cast<uint8_t>(text[0])] = true;
    int32_t node = 0;
    for (const char c : text) {
      const auto [next, fresh] = next_.insert({node, static_cast<uint8_t>(c)});
      if (fresh) {
        *next = static_cast<int32_t>(values_.size());
        values_.push_back(-1);
      }
      node = *next;
    }
    if (int32_t& here = values_[static_cast<size_t>(node)]; here < 0) here = value;
  }
  bool empty() const { return values_.size() == 1; }

  // Returns the longest text of the set that `text` begins with.
  Match longest(std::string_view text) const {
    Match best;
    if (text.empty() || !starts_[static_cast<uint8_t>(text[0])]) return best;
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const int32_t* next = next_.find({node, static_cast<uint8_t>(text[i])});
      if (!next) break;
      node = *next;
      if (const int32_t value = values_[static_cast<size_t>(node)]; value >= 0) best = {i + 1, value};
    }
    return best;
  }

 private:
  PairMap<int32_t> next_;            // (node, byte) -> node; 0 is the root
  std::vector<int32_t> values_{-1};  // by node; -1: no text ends there
  std::array<bool, 256> starts_{};
};

}  // namespace fp
