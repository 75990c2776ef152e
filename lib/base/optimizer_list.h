// The list of optimizers, from which come the choices of `optimizer.kind` (to which choices.h adds `muon`), the ops of
// their updates, and their slots.
//
// FP_OPTIMIZERS(X) expands X(Rule, name) for each optimizer that updates every element by itself: rules::Rule
// (lib/ops/calls/update_rules.h) is its formula, and `name` is the enumerator, the name in YAML and the op.
#pragma once

#define FP_OPTIMIZERS(X) \
  X(AdamW, adamw)        \
  X(Lion, lion)

namespace fp {

constexpr const char* kOptimizerDoc =
    "`adamw`: Adam with decoupled weight decay. `lion`: steps of one size along the sign of the momentum; its `lr` is "
    "usually a third to a tenth of AdamW's, its `weight_decay` as many times larger. `muon`: the matrices of the "
    "layers move along their orthogonalized momentum, all else by AdamW with the keys beta1, beta2 and eps.";

}  // namespace fp
