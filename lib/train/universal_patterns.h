// How a checkpoint's tensors lay on the ranks that saved it, in the words of universal checkpoints
// (docs/checkpoint-format.md). For people and other programs: nothing is loaded by them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

struct UniversalPattern {
  enum class Kind : uint8_t { unique, replicated, fragment } kind = Kind::unique;
  int dim = -1;                        // of a fragment: the dimension that is cut
  std::vector<int64_t> sub_fragments;  // lengths along it that were cut each by itself, where there are several
  std::vector<int> copies;             // of each of these: tensor-parallel ranks that held the same part
  int64_t vocabulary = 0, padded = 0;  // rows beyond the vocabulary existed in memory only; 0: none did
  bool on_two_stages = false;          // the first and the last pipeline stage held it

  // "fragment dim 0 in 32+8+8".
  std::string text() const;
};

// By parameter. Empty when the checkpoint's run spec does not describe the model it holds.
std::map<std::string, UniversalPattern> universal_patterns(const Checkpoint&);

}  // namespace fp
