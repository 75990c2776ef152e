#include "model/head_exchange.h"

#include <set>

#include "sharding/head_split.h"

namespace fp {
namespace {

constexpr int kSwapRanksAndSamples[] = {1, 0, 2, 3};

}  // namespace

HeadExchange::HeadExchange(const HeadLayout& all, int ranks, int index) : index_(static_cast<size_t>(index)) {
  if (all.heads < ranks)
    throw ConfigError(fmt::format(
        "parallel.sequence = {} is more than the {} attention heads that a tensor-parallel rank holds; use 1 to {}",
        ranks, all.heads, all.heads));
  const int64_t d = all.head_dim;
  qkv_.total = all.columns();
  q_.total = all.heads * d;
  for (int r = 0; r < ranks; ++r) {
    const HeadRanges s = split_heads(all.heads, all.kv_heads, ranks, r);
    if (r == index) {
      core_ = {s.heads.count, s.kv_heads.count, d, all.grouped};
      first_head_ = s.heads.first;
    }
    std::vector<Columns> qkv;
    if (all.grouped && s.kv_heads.count > 1) {  // whole groups
      qkv = {{all.q_column(s.heads.first), all.columns() / all.kv_heads * s.kv_heads.count}};
    } else {  // separate even if adjacent: other ranks may have the same keys and values with other queries
      qkv = {{all.q_column(s.heads.first), s.heads.count * d},
             {all.k_column(s.kv_heads.first), s.kv_heads.count * d},
             {all.v_column(s.kv_heads.first), s.kv_heads.count * d}};
    }
    qkv_.of_rank.push_back(std::move(qkv));
    q_.of_rank.push_back({{s.heads.first * d, s.heads.count * d}});
  }
}

int64_t HeadExchange::Cut::count(size_t rank) const {
  int64_t n = 0;
  for (const Columns& c : of_rank[rank]) n += c.count;
  return n;
}

std::vector<int64_t> HeadExchange::pieces(const Cut& cut, int64_t rows) const {
  std::vector<int64_t> n;
  for (size_t r = 0; r < cut.of_rank.size(); ++r) n.push_back(rows * cut.count(r));
  return n;
}

ArenaTensor HeadExchange::to_core(const Place& p, ArenaTensor x, const Cut& cut) const {
  const size_t ranks = cut.of_rank.size();
  if (ranks == 1) return x;
  const int64_t rows = p.share.rows(), mine = cut.count(index_);
  const std::vector<int64_t> sends = pieces(cut, rows);
  int64_t total = 0;
  for (const int64_t n : sends) total += n;
  ArenaTensor packed = p.arena->alloc(x->dtype, {total});
  int64_t at = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const Tensor piece = packed->slice(at, sends[r]).reshaped({rows, cut.count(r)});
    int64_t column = 0;
    for (const Columns& c : cut.of_rank[r]) {
      p.ops->copy_columns({piece, column, x, c.first, c.count, Write::set});
      column += c.count;
    }
    at += sends[r];
  }
  x.reset();
  const Shape by_rank{static_cast<int64_t>(ranks), p.share.samples, p.share.tokens, mine};
  ArenaTensor core = p.arena->alloc(packed->dtype, {p.share.samples * p.share.length, mine});
  const std::vector<int64_t> recvs(ranks, rows * mine);
  if (p.share.samples == 1) {
    p.group->start_all_to_all(core, packed, sends, recvs).wait();
    return core;
  }
  const ArenaTensor received = p.arena->alloc(packed->dtype, by_rank);
  p.group->start_all_to_all(received, packed, sends, recvs).wait();
  p.ops->permute({core->reshaped({by_rank[1], by_rank[0], by_rank[2], by_rank[3]}), received, kSwapRanksAndSamples});
  return core;
}

ArenaTensor HeadExchange::to_rows(const Place& p, ArenaTensor x, const Cut& cut) const {
  const size_t ranks = cut.of_rank.size();
  if (ranks == 1) return x;
  const int64_t rows = p.share.rows(), mine = cut.count(index_);
  if (p.share.samples > 1) {
    const Shape by_sample{p.share.samples, static_cast<int64_t>(ranks), p.share.tokens, mine};
    ArenaTensor by_rank = p.arena->alloc(x->dtype, {by_sample[1], by_sample[0], by_sample[2], by_sample[3]});
    p.ops->permute({by_rank, x->reshaped(by_sample), kSwapRanksAndSamples});
    x = std::move(by_rank);
  }
  const std::vector<int64_t> recvs = pieces(cut, rows);
  int64_t total = 0;
  for (const int64_t n : recvs) total += n;
  const ArenaTensor packed = p.arena->alloc(x->dtype, {total});
  p.group->start_all_to_all(packed, x, std::vector<int64_t>(ranks, rows * mine), recvs).wait();
  x.reset();
  ArenaTensor y = p.arena->alloc(packed->dtype, {rows, cut.total});
  std::set<int64_t> written;
  int64_t at = 0;
  for (size_t r = 0; r < ranks; ++r) {
    const Tensor piece = packed->slice(at, recvs[r]).reshaped({rows, cut.count(r)});
    int64_t column = 0;
    for (const Columns& c : cut.of_rank[r]) {
      // Gradients of the copies of a kv head are added in rank order.
      p.ops->copy_columns(
          {y, c.first, piece, column, c.count, written.insert(c.first).second ? Write::set : Write::add});
      column += c.count;
    }
    at += recvs[r];
  }
  return y;
}

}  // namespace fp
