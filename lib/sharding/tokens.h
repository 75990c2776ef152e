// Splits the tokens of a micro-batch over the ranks that process it together. Pure arithmetic.
//
// A micro-batch is B sequences of T tokens, processed in one or more chunks: the same range of tokens of every
// sequence. Each sequence-parallel rank has a contiguous range of each chunk (so of causal attention over a chunk and
// those before it, every rank has the same part). T is padded at the end so that chunks and ranges are equal (padding
// comes after every real token and has no target, so nothing real depends on it). A rank's tokens of a chunk, sample
// after sample, are its rows; its rows of the whole micro-batch are those of the first chunk, the second, and so on.
// Megatron sequence parallelism splits the rows of a chunk again over the tensor-parallel ranks, outside attention and
// the tensor-parallel matrix products.
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

// The tokens of one chunk on one rank.
struct TokenShare {
  int64_t samples = 0;                    // B
  int64_t start = 0, length = 0;          // of the chunk in each sequence, padding included
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
  int64_t chunk = 0;      // largest number of tokens of a chunk, before padding; 0: any
};

// Returns the shares of all chunks. The chunks are equal, padding included, and none is only padding.
std::vector<TokenShare> split_tokens(int64_t samples, int64_t length, const TokenCut&);
// Returns the rows of all chunks that this rank holds under Megatron sequence parallelism.
int64_t local_rows(const std::vector<TokenShare>&);

}  // namespace fp
