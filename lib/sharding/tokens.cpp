#include "sharding/tokens.h"

#include <algorithm>

namespace fp {

int64_t padded_length(int64_t length, const TokenCut& c) {
  const int64_t unit = int64_t{c.sequence} * (c.megatron ? c.tensor : 1);
  return (length + unit - 1) / unit * unit;
}

TokenShare split_tokens(int64_t samples, int64_t length, const TokenCut& c) {
  TokenShare s;
  s.samples = samples;
  s.length = padded_length(length, c);
  s.tokens = s.length / c.sequence;
  s.first_token = s.tokens * c.sequence_index;
  s.local_rows = c.megatron ? s.rows() / c.tensor : s.rows();
  s.first_row = c.megatron ? s.local_rows * c.tensor_index : 0;
  return s;
}

std::vector<TokenRun> TokenShare::local_runs() const {
  std::vector<TokenRun> runs;
  for (int64_t row = 0; row < local_rows;) {
    const int64_t at = first_row + row, token = at % tokens, left = local_rows - row;
    TokenRun r{row, at / tokens, 1, first_token + token, std::min(tokens - token, left)};
    if (token == 0) r.samples = std::max<int64_t>(1, left / tokens);
    runs.push_back(r);
    row += r.samples * r.tokens;
  }
  return runs;
}

}  // namespace fp
