// Describes how a checkpoint's tensors were divided over the ranks that saved it, in the terms of universal checkpoints
// (docs/checkpoint-format.md). For people and other programs: loading does not use it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

struct UniversalPattern {
  enum class Kind : uint8_t { unique, replicated, fragment } kind = Kind::unique;
  int dim = -1;                        // of a fragment: the dimension that is divided
  std::vector<int64_t> sub_fragments;  // lengths along `dim` of the pieces that are divided separately
  std::vector<int> copies;             // of each piece: tensor-parallel ranks that held the same part
  int64_t vocabulary = 0, padded = 0;  // rows beyond the vocabulary existed in memory only; 0: no padding
  bool on_two_stages = false;          // held by both the first and the last pipeline stage

  // "fragment dim 0 in 32+8+8".
  std::string text() const;
};

// Returns the patterns by parameter name. Empty when the checkpoint's run spec does not describe the model it holds.
std::map<std::string, UniversalPattern> universal_patterns(const Checkpoint&);

}  // namespace fp
