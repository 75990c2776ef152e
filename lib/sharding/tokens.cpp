#include "sharding/tokens.h"

#include <algorithm>
#include <numeric>

namespace fp {

std::vector<TokenShare> split_tokens(int64_t samples, int64_t length, const TokenCut& c) {
  const auto over = [](int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; };
  const int64_t unit = int64_t{c.sequence} * (c.megatron ? c.tensor : 1);
  const int64_t cuts = c.chunk > 0 ? over(length, c.chunk) : 1, each = over(over(length, cuts), unit) * unit;
  const int64_t chunks = over(length, each);  // none is only padding
  std::vector<TokenShare> shares;
  for (int64_t i = 0; i < chunks; ++i) {
    TokenShare s;
    s.samples = samples;
    s.length = each;
    s.start = i * s.length;
    s.tokens = s.length / c.sequence;
    s.first_token = s.start + s.tokens * c.sequence_index;
    s.local_rows = c.megatron ? s.rows() / c.tensor : s.rows();
    s.first_row = c.megatron ? s.local_rows * c.tensor_index : 0;
    shares.push_back(s);
  }
  return shares;
}

int64_t local_rows(const std::vector<TokenShare>& shares) {
  return std::accumulate(shares.begin(), shares.end(), int64_t{0},
                         [](int64_t n, const TokenShare& s) { return n + s.local_rows; });
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
