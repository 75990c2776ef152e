// Converts a dropout stream (Dropout) into the arguments of the CPU kernels.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/ops.h"

namespace fp::cpu {

inline DropoutArgs dropout_args(const Dropout& spec, uint32_t head = 0) {
  const Philox::Key key = dropout_key(spec, head);
  return {.p = static_cast<float>(spec.p), .kept = static_cast<float>(1.0 / (1.0 - spec.p)), .key = {key[0], key[1]}};
}

}  // namespace fp::cpu
