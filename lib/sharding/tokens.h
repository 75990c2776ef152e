// Splits the tokens of a micro-batch over the ranks that process it together. Pure arithmetic.
//
// A micro-batch is B sequences of T tokens. Each sequence-parallel rank has a contiguous range of every sequence; T is
// padded at the end so that the ranges are equal (padding comes after every real token and has no target, so nothing
// real depends on it). A rank's tokens, sample after sample, are its rows. Megatron sequence parallelism splits these
// rows again over the tensor-parallel ranks, outside attention and the tensor-parallel matrix products.
#pragma once

#include <cstdint>
#include <vector>

namespace fp {

// Rows [row, row + samples * tokens) hold tokens [first_token, first_token + tokens) of `samples` samples from `sample`
// on.
struct TokenRun {
  int64_t row = 0, sample = 0, samples = 0, first_token = 0, tokens = 0;
  bool operator==(const TokenRun&) const = default;
};

// The tokens of one rank.
struct TokenShare {
  int64_t samples = 0;                    // B
  int64_t length = 0;                     // T, padding included
  int64_t tokens = 0, first_token = 0;    // of each sequence, on this sequence-parallel rank
  int64_t first_row = 0, local_rows = 0;  // the part of rows() that this rank holds under Megatron sequence parallelism
  int64_t rows() const { return samples * tokens; }
  // Returns the local rows as runs of whole samples or of a part of one; `row` counts from the first local row.
  std::vector<TokenRun> local_runs() const;
};

// The degrees of sequence and tensor parallelism, and this rank's index in each.
struct TokenCut {
  int sequence = 1, sequence_index = 0;
  int tensor = 1, tensor_index = 0;
  bool megatron = false;  // rows are also split over the tensor-parallel ranks
};

// Returns T padded to a multiple that the cut divides evenly.
int64_t padded_length(int64_t length, const TokenCut&);
TokenShare split_tokens(int64_t samples, int64_t length, const TokenCut&);

}  // namespace fp
