// Generates malformed inputs for a parser by mutating valid ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fp_fuzz {

// An input depends only on the corpus, the seed and its number, so a finding can be reproduced on any machine.
class Mutator {
 public:
  static constexpr size_t kLongest = size_t{1} << 16;  // maximum bytes of an input

  // The corpus, whose order matters, must contain at least one text.
  Mutator(std::vector<std::string> corpus, uint64_t seed);

  // Returns input `number`.
  std::string input(uint64_t number) const;

 private:
  std::vector<std::string> corpus_;
  uint64_t seed_;
};

}  // namespace fp_fuzz
