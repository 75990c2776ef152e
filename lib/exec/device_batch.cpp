#include "exec/device_batch.h"

#include <algorithm>
#include <vector>

namespace fp {
namespace {

// Returns the values of tokens [first, first + count) of each sample, `padding` beyond its end.
std::vector<int32_t> columns_of(const Batch& b, const std::vector<int32_t>& values, int64_t first, int64_t count,
                                int32_t padding) {
  std::vector<int32_t> columns(static_cast<size_t>(b.n * count), padding);
  const int64_t real = std::clamp<int64_t>(b.seq_len - first, 0, count);
  for (int64_t s = 0; s < b.n; ++s)
    std::copy_n(values.begin() + s * b.seq_len + first, real, columns.begin() + s * count);
  return columns;
}

}  // namespace

TokenShare share_of(const ModelEnv& e, const Batch& b) { return split_tokens(b.n, b.seq_len, e.tokens); }

int64_t valid_targets(const Batch& b, const TokenShare& share) {
  const std::vector<int32_t> mine = columns_of(b, b.targets, share.first_token, share.tokens, kIgnoredTarget);
  return static_cast<int64_t>(mine.size()) - std::count(mine.begin(), mine.end(), kIgnoredTarget);
}

DeviceBatch upload(const ModelEnv& e, const Batch& b, bool training) {
  const TokenShare share = share_of(e, b);
  const int64_t m = share.rows(), end = b.seq_len;
  DeviceBatch s;
  const auto put = [&](ArenaTensor& t, const Shape& shape, const std::vector<int32_t>& host) {
    t = e.arena->alloc(DType::i32, shape);
    e.ops->copy_in({t, host.data()});
  };
  const auto mine = [&](const std::vector<int32_t>& values, int32_t padding) {
    return columns_of(b, values, share.first_token, share.tokens, padding);
  };
  std::vector<int32_t> ids = mine(b.tokens, 0), positions = mine(b.positions, 0);
  if (e.ids->embedding.positions >= 0) put(s.row_positions, {m}, positions);
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i] - e.vocabulary.first;
    const bool here = id >= 0 && id < e.vocabulary.count;
    ids[i] = here ? static_cast<int32_t>(id) : -1;
    if (!here) positions[i] = -1;
  }
  put(s.ids, {m}, ids);
  if (e.ids->embedding.positions >= 0) put(s.embed_positions, {m}, positions);
  put(s.targets, {m}, mine(b.targets, kIgnoredTarget));
  put(s.positions, {b.n * share.length}, columns_of(b, b.positions, 0, share.length, 0));
  std::vector<int32_t> words;
  for (const uint64_t id : b.sample_ids) {
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id)));
    words.push_back(static_cast<int32_t>(static_cast<uint32_t>(id >> 32)));
  }
  put(s.sample_ids, {b.n, 2}, words);
  const bool masked = std::any_of(b.doc_start.begin(), b.doc_start.end(), [](int32_t start) { return start != 0; });
  // Allocated even if unused: a hole that only some batches leave could raise the arena above the dry run's mark.
  put(s.doc_start, {b.n, share.length}, columns_of(b, b.doc_start, 0, share.length, static_cast<int32_t>(end)));
  s.view = {share,           share.local_runs(),
            s.ids,           s.targets,
            s.row_positions, s.embed_positions,
            s.positions,     masked ? *s.doc_start : Tensor(),
            s.sample_ids,    training};
  return s;
}

}  // namespace fp
