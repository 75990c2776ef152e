// Texts in which key-value pairs are hidden, to train and to measure recall: a pair is written "<qkZD>", and a
// question is the beginning of such a pair, "<qk", whose answer is the value. They consist of token ids, so that their
// lengths are exact and a value has the same tokens wherever it is written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/formats/dataset.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

// The tokens between the pairs: a stream that repeats, without its end-of-text tokens, which would end the sample.
class Filler {
 public:
  // Reads the tokens of a dataset as they are needed. Throws DataError if it has none.
  explicit Filler(std::shared_ptr<const Dataset>);
  // `end_of_text`: the id to leave out. Throws DataError for an empty list.
  Filler(std::vector<int32_t> tokens, int32_t end_of_text);

  uint64_t tokens() const { return tokens_; }  // end-of-text tokens included
  // Appends n tokens from position `at` (modulo tokens()) on, and moves it behind them. Throws DataError if all tokens
  // are ends of text.
  void append(uint64_t& at, uint64_t n, std::vector<int32_t>& ids) const;

 private:
  uint64_t tokens_;
  int32_t end_of_text_;
  std::function<void(uint64_t, std::span<int32_t>)> read_;
};

// A sample to measure recall with: the prompt ends with a question.
struct NeedleSample {
  std::vector<int32_t> prompt, answer;
};

// Identifies a sample; each draws its own random numbers.
struct KeyValueSeed {
  uint64_t seed = 0;
  uint64_t sample = 0;
  uint32_t stream = 0;  // separates samples of different kinds
};

class KeyValueTexts {
 public:
  static constexpr size_t kMostPairs = 256;         // of a text
  static constexpr int64_t kShortestDocument = 64;  // tokens

  // Throws ConfigError for a tokenizer with which kShortestDocument does not hold four pairs.
  KeyValueTexts(const Tokenizer&, Filler);

  // Returns the smallest legal length of a needle() with this number of pairs.
  int64_t shortest_needle(size_t pairs) const;
  // Returns a sample of `length` tokens, its answer included. A pair is hidden at each depth, in percent of the filler
  // before it: 0 is the beginning, 100 the end. The question is that of the pair at depths[asked].
  NeedleSample needle(int64_t length, std::span<const double> depths, size_t asked, const KeyValueSeed&) const;
  // Where a training document asks for its pairs. anywhere: each pair may occur again and again, and from the second
  // time on it can be recalled. at_end: each pair is once in the filler and once behind it, in another order, so that
  // half of the answers are further away than half of the document.
  enum class Asked { anywhere, at_end };
  // Returns a training document of `length` tokens (at least kShortestDocument), without an end-of-text token, in which
  // pairs stand at random places of the filler. `anywhere`: they take a quarter of the document to all of it. The
  // number of different pairs is random, up to half of the places.
  std::vector<int32_t> document(int64_t length, Asked, const KeyValueSeed&) const;

 private:
  class Random;
  struct Pair {
    size_t key, value;  // indices of questions_ and values_
  };
  // Returns n pairs with different keys.
  std::vector<Pair> draw(size_t n, Random&) const;
  void append(const Pair&, std::vector<int32_t>& ids) const;
  // Appends n tokens of filler with the pairs in it, each after the given number of tokens of filler (ascending).
  void append_hidden(std::span<const Pair> pairs, std::span<const uint64_t> after, uint64_t n, Random&,
                     std::vector<int32_t>& ids) const;
  size_t size_of(const Pair&) const;

  Filler filler_;
  std::vector<int32_t> prefix_;  // what the tokenizer puts before a text
  std::vector<std::vector<int32_t>> questions_, values_;
  std::vector<int32_t> close_;  // ">"
  size_t longest_pair_ = 0;     // tokens
};

}  // namespace fp
