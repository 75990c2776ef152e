// Reads a tensor that may lie in host memory with ops, of which a piece at a time passes through the device. Not for
// use inside a step: the host waits for the copies.
#pragma once

#include <algorithm>

#include "model/env.h"

namespace fp {

// Calls use(piece, first element) with pieces on the device that make up a flat tensor, as long as it returns true:
// with the tensor itself if it is there, else with pieces of up to kPieceElements elements, of which one is on the
// device.
template <class Use>
void for_each_piece(const ModelEnv& env, const Tensor& x, const Use& use) {
  if (x.residence == Residence::device) {
    use(x, int64_t{0});
    return;
  }
  env.ops->synchronize();  // the copies that wrote it were ordered, but may not have ended
  const int64_t most = std::min(kPieceElements, x.elements());
  const ArenaTensor buffer = env.arena->alloc(x.dtype, {most}, MemoryClass::workspace);
  for (int64_t at = 0; at < x.elements(); at += most) {
    const Tensor home = x.slice(at, std::min(most, x.elements() - at)), piece = buffer->slice(0, home.elements());
    env.ops->copy_in({piece, home.data});
    if (!use(piece, at)) return;
  }
}

}  // namespace fp
