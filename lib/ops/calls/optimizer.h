// Calls of the optimizers on flat buffers.
#pragma once

#include <array>
#include <span>

#include "base/index_range.h"
#include "ops/calls/call.h"
#include "ops/calls/update_rules.h"

namespace fp {

// Sums that an update computes along the way; an empty tensor is not computed.
struct RuleSums {
  Tensor gradient;  // f32 [1,2]: piece_sums() of grad, before it is scaled
  Tensor bits;      // i32 [states + 2, 2]: bit_sums() of the new param, states and weights, 0 without weights
};

namespace calls {

// sums f32 [segments]: sum of squares of each segment of flat x (f32), added up in double or in short blocks;
// non-finite when any element is.
struct SumSquares {
  Tensor sums, x;
  std::span<const IndexRange> segments;
};

// The update of an optimizer on flat f32 buffers by its rule (update_rules.h). `weights` (bf16 copy of param, or empty)
// is refreshed and the sums are computed in the same pass.
#define FP_UPDATE(Rule, name)                        \
  struct Rule {                                      \
    Tensor param;                                    \
    std::array<Tensor, rules::Rule::kStates> states; \
    Tensor grad, weights = {};                       \
    UpdateOptions options;                           \
    RuleSums sums = {};                              \
  };
FP_OPTIMIZERS(FP_UPDATE)
#undef FP_UPDATE

}  // namespace calls
}  // namespace fp
