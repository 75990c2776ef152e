#include "exec/device_batch.h"

#include <algorithm>
#include <vector>

namespace fp {
namespace {

// Appends the values of tokens [first, first + count) of each sample, `padding` beyond its end.
void append_columns(std::vector<int32_t>& columns, const Batch& b, const std::vector<int32_t>& values, int64_t first,
                    int64_t count, int32_t padding) {
  const int64_t real = std::clamp<int64_t>(b.seq_len - first, 0, count);
  for (int64_t s = 0; s < b.n; ++s) {
    const auto from = values.begin() + s * b.seq_len + std::min(first, b.seq_len);
    columns.insert(columns.end(), from, from + real);
    columns.insert(columns.end(), static_cast<size_t>(count - real), padding);
  }
}

// Return the values of this rank's tokens, and those of all sequence-parallel ranks, chunk after chunk.
std::vector<int32_t> own_tokens(const Batch& b, const std::vector<int32_t>& values,
                                const std::vector<TokenShare>& shares, int32_t padding) {
  std::vector<int32_t> columns;
  for (const TokenShare& s : shares) append_columns(columns, b, values, s.first_token, s.tokens, padding);
  return columns;
}
std::vector<int32_t> all_tokens(const Batch& b, const std::vector<int32_t>& values,
                                const std::vector<TokenShare>& shares, int32_t padding) {
  std::vector<int32_t> columns;
  for (const TokenShare& s : shares) append_columns(columns, b, values, s.start, s.length, padding);
  return columns;
}

}  // namespace

std::vector<TokenShare> shares_of(const ModelEnv& e, const Batch& b) { return split_tokens(b.n, b.seq_len, e.tokens); }

int64_t valid_targets(const Batch& b, const std::vector<TokenShare>& shares) {
  int64_t sum = 0;
  for (const TokenShare& share : shares)
    for (int64_t i = 0; i < b.n; ++i) {
      const auto sample = b.targets.begin() + i * b.seq_len;
      const auto first = sample + std::min(share.first_token, b.seq_len),
                 end = sample + std::min(share.first_token + share.tokens, b.seq_len);
      sum += end - first - std::count(first, end, kIgnoredTarget);
    }
  return sum;
}

DeviceBatch upload(const ModelEnv& e, const Batch& b, bool training) {
  const std::vector<TokenShare> shares = shares_of(e, b);
  DeviceBatch s;
  // A dry run, which needs only shapes, may be of millions of tokens: it makes no values.
  const auto own = [&](const std::vector<int32_t>& values, int32_t padding) {
    return e.arena->dry() ? std::vector<int32_t>() : own_tokens(b, values, shares, padding);
  };
  const auto all = [&](const std::vector<int32_t>& values, int32_t padding) {
    return e.arena->dry() ? std::vector<int32_t>() : all_tokens(b, values, shares, padding);
  };
  const auto put = [&](ArenaTensor& t, const Shape& shape, const std::vector<int32_t>& host) {
    t = e.arena->alloc(DType::i32, shape);
    e.ops->copy_in({t, host.data()});
  };
  int64_t rows = 0, all_rows = 0;
  for (const TokenShare& share : shares) {
    rows += b.n * share.tokens;
    all_rows += b.n * share.length;
  }
  std::vector<int32_t> ids = own(b.tokens, 0), positions = own(b.positions, 0);
  if (e.ids->embedding.positions >= 0) put(s.row_positions, {rows}, positions);
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i] - e.vocabulary.first;
    const bool here = id >= 0 && id < e.vocabulary.count;
    ids[i] = here ? static_cast<int32_t>(id) : -1;
    if (!here) positions[i] = -1;
  }
  put(s.ids, {rows}, ids);
  if (e.ids->embedding.positions >= 0) put(s.embed_positions, {rows}, positions);
  put(s.targets, {rows}, own(b.targets, kIgnoredTarget));
  put(s.positions, {all_rows}, all(b.positions, 0));
  std::vector<int32_t> words;
  for (const uint64_t id : b.sample_ids) {
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id)));
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id >> 32)));
  }
  put(s.sample_ids, {b.n, 2}, words);
  const bool masked = std::any_of(b.doc_start.begin(), b.doc_start.end(), [](int32_t start) { return start != 0; });
  // Allocated even if unused: a hole that only some batches leave could raise the arena above the dry run's mark.
  const size_t chunks = shares.size();
  put(s.doc_start, {static_cast<int64_t>(chunks) * b.n, shares[0].length},
      all(b.doc_start, static_cast<int32_t>(b.seq_len)));
  for (size_t i = 0; i < chunks; ++i) {
    const auto part = [&](const Tensor& t) { return part_of(t, i, chunks); };
    s.chunks.push_back({i, shares[i], shares[i].local_runs(), part(s.ids), part(s.targets), part(s.row_positions),
                        part(s.embed_positions), part(s.positions), masked ? part(s.doc_start) : Tensor(), s.sample_ids,
                        training});
  }
  return s;
}

}  // namespace fp
