// DeepSpeed-Ulysses' exchange around the attention core (Jacobs et al. 2023): a rank with some tokens of all heads
// becomes a rank with all tokens of some heads, and back. Matrices have a column range for each head; position encoding
// is applied after the exchange, to whole sequences.
//
// Heads are dealt as plan/deal.h says: unevenly where they do not divide, a kv head to several ranks where there are
// fewer than ranks. Its gradient is then the sum of theirs.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "ops/ops.h"
#include "plan/tokens.h"
#include "tensor/arena.h"

namespace fp {

class HeadExchange {
 public:
  HeadExchange() = default;
  // The heads of a rank's QKV projection, dealt to `ranks`, of which this one is `index`. ConfigError when there are
  // fewer query heads than ranks.
  HeadExchange(const HeadLayout&, int ranks, int index);

  const HeadLayout& core() const { return core_; }  // of this rank's share
  int64_t first_head() const { return first_head_; }

  struct Place {
    Ops* ops;
    Arena* arena;
    Group* group;
    TokenShare share;
  };
  // Columns of the projection [M, qkv] -> of the core [B*T, qkv of the core], and the gradient back.
  ArenaTensor qkv_to_core(const Place& p, ArenaTensor x) const { return to_core(p, std::move(x), qkv_); }
  ArenaTensor qkv_to_rows(const Place& p, ArenaTensor x) const { return to_rows(p, std::move(x), qkv_); }
  // Query columns, of the attention's output or its gradient.
  ArenaTensor q_to_core(const Place& p, ArenaTensor x) const { return to_core(p, std::move(x), q_); }
  ArenaTensor q_to_rows(const Place& p, ArenaTensor x) const { return to_rows(p, std::move(x), q_); }

 private:
  struct Columns {
    int64_t first = 0, count = 0;
  };
  // For each rank its columns of a matrix, in the order of its core.
  struct Cut {
    std::vector<std::vector<Columns>> of_rank;
    int64_t total = 0;
    int64_t count(size_t rank) const;
  };
  ArenaTensor to_core(const Place&, ArenaTensor x, const Cut&) const;
  ArenaTensor to_rows(const Place&, ArenaTensor x, const Cut&) const;
  std::vector<int64_t> pieces(const Cut&, int64_t rows) const;

  HeadLayout core_;
  int64_t first_head_ = 0;
  size_t index_ = 0;
  Cut qkv_, q_;
};

}  // namespace fp
