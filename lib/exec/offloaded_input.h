// OffloadedInput: the input of a block that is recomputed, in host memory between the forward and the backward pass
// (memory.offload.activations). It goes out while the block computes, and comes back while the block above it does.
#pragma once

#include "model/env.h"

namespace fp {

// Its functions are called in this order. None makes the host wait.
class OffloadedInput {
 public:
  OffloadedInput() = default;
  ~OffloadedInput();
  OffloadedInput(const OffloadedInput&) = delete;
  OffloadedInput& operator=(const OffloadedInput&) = delete;

  // Starts to copy x to host memory. It must not change until release().
  void send(const ModelEnv&, const Tensor& x);
  // Makes later ops wait for that copy, and releases x.
  void release(ArenaTensor& x);
  // Allocates x again and starts to fill it; does nothing if it was called before.
  void fetch(ArenaTensor& x);
  // Makes later ops wait until x is filled, and releases the host memory.
  void arrive();

 private:
  const ModelEnv* env_ = nullptr;
  ArenaTensor host_;
  CopyTicket copy_;  // under way
};

}  // namespace fp
