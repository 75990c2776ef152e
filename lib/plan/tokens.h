// How the tokens of a micro-batch are dealt to the ranks that share it. Pure arithmetic.
//
// B sequences of T tokens. Each sequence-parallel rank has a contiguous share of every sequence; T is padded at the end
// so that the shares are equal (what is padded comes after every real token and has no target, so nothing real depends
// on it). A rank's tokens, sample after sample, are its rows; Megatron sequence parallelism deals these rows once more
// to the tensor-parallel ranks, wherever no tokens meet.
#pragma once

#include <cstdint>
#include <vector>

namespace fp {

// Rows [row, row + samples * tokens): tokens [first_token, first_token + tokens) of `samples` samples from `sample` on.
struct TokenRun {
  int64_t row = 0, sample = 0, samples = 0, first_token = 0, tokens = 0;
  bool operator==(const TokenRun&) const = default;
};

struct TokenShare {
  int64_t samples = 0;                    // B
  int64_t length = 0;                     // T, padding included
  int64_t tokens = 0, first_token = 0;    // of each sequence, on this sequence-parallel rank
  int64_t first_row = 0, local_rows = 0;  // of this rank's rows, where Megatron sequence parallelism cuts them
  int64_t rows() const { return samples * tokens; }
  // The local rows in runs of whole samples or parts of one; `row` counts from the first local row.
  std::vector<TokenRun> local_runs() const;
};

struct TokenCut {
  int sequence = 1, sequence_index = 0;
  int tensor = 1, tensor_index = 0;
  bool megatron = false;  // rows are dealt to the tensor-parallel ranks
};

// T padded up to what the cut divides.
int64_t padded_length(int64_t length, const TokenCut&);
TokenShare share_tokens(int64_t samples, int64_t length, const TokenCut&);

}  // namespace fp
