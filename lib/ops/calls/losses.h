// Calls of the softmax cross-entropy over slices of a vocabulary.
#pragma once

#include "ops/calls/call.h"

namespace fp {

// The vocabulary slice of logits [rows, V]: global ids [first_id, first_id + V). Ids >= valid_ids are padding, and
// `masked_ids` (i32, may be empty) are excluded; both get probability 0. Logits are multiplied by logit_scale.
struct Vocabulary {
  int64_t first_id = 0;
  int64_t valid_ids = 0;
  Tensor masked_ids;
  double logit_scale = 1.0;
};

namespace calls {

// stats f32 [C,3], for each row of logits [C,V]: maximum, sum of exp(l - maximum), logit of the target (-infinity when
// the target is not in this slice). targets i32 [C] are global ids, -1: ignored. SoftmaxStatsMerge combines the stats
// of several slices.
struct SoftmaxStats {
  Tensor stats, logits, targets;
  Vocabulary vocabulary;
};

// Merges parts f32 [P,C,3], the stats of the P slices of a vocabulary in order, into stats [C,3]: maximum of all, sum
// of sum_p * exp(maximum_p - maximum), largest target. A slice without a valid logit (-infinity, 0, -infinity) adds
// nothing; a sum of NaN stays NaN. stats may not alias parts.
struct SoftmaxStatsMerge {
  Tensor stats, parts;
};

// loss f32 [C,2] = (lse - target logit, lse), both 0 for ignored rows.
struct CrossEntropy {
  Tensor loss, stats, targets;
};

// Replaces logits by their gradient scale*logit_scale*(softmax*(1 + 2*z_loss*lse) - onehot); 0 for ignored rows and for
// padding and masked columns.
struct CrossEntropyBackward {
  Tensor logits, loss, targets;
  Vocabulary vocabulary;
  double scale, z_loss;
};

}  // namespace calls
}  // namespace fp
