// HeadExchange: the all-to-all of DeepSpeed-Ulysses around the attention core (Jacobs et al. 2023). A rank with some
// tokens of all heads becomes a rank with all tokens of some heads, and back. Matrices have a range of columns for each
// head; position encoding is applied after the exchange, to whole sequences.
//
// Heads are split as in sharding/head_split.h: unevenly if they do not divide, and with copies of a kv head on several
// ranks if there are fewer kv heads than ranks; the gradient of such a head is the sum of those of its copies.
#pragma once

#include <vector>

#include "comm/comm.h"
#include "ops/ops.h"
#include "sharding/tokens.h"
#include "tensor/arena.h"

namespace fp {

class HeadExchange {
 public:
  HeadExchange() = default;
  // Splits the heads of a tensor-parallel rank's QKV projection over `ranks`; this rank is `index`. Throws ConfigError
  // if there are fewer query heads than ranks.
  HeadExchange(const HeadLayout&, int ranks, int index);

  const HeadLayout& core() const { return core_; }  // this rank's heads after the exchange
  int64_t first_head() const { return first_head_; }

  // Where an exchange runs, and the tokens that it exchanges.
  struct Place {
    Ops* ops;
    Arena* arena;
    Group* group;
    TokenShare share;
  };
  // Convert the QKV projection [M, qkv] to the core's [B*T, qkv of the core], and its gradient back.
  ArenaTensor qkv_to_core(const Place& p, ArenaTensor x) const { return to_core(p, std::move(x), qkv_); }
  ArenaTensor qkv_to_rows(const Place& p, ArenaTensor x) const { return to_rows(p, std::move(x), qkv_); }
  // The same for query columns: the output of attention, or its gradient.
  ArenaTensor q_to_core(const Place& p, ArenaTensor x) const { return to_core(p, std::move(x), q_); }
  ArenaTensor q_to_rows(const Place& p, ArenaTensor x) const { return to_rows(p, std::move(x), q_); }

 private:
  struct Columns {
    int64_t first = 0, count = 0;
  };
  // The columns of a matrix that each rank's core gets, in the order of the core.
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
