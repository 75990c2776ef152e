// Logical tensors that can be read in boxes, wherever they are stored: a checkpoint, another program's files.
#pragma once

#include <string>

#include "checkpoint/fragments.h"

namespace fp {

class TensorReader {
 public:
  virtual ~TensorReader() = default;
  // The box of a parameter's logical tensor, as fp32, into host memory. DataError when it cannot be read.
  virtual void read(const std::string& param, StateKind, const h5::Box&, float* data, const h5::Window&) = 0;
};

// The weights of a store, compute copy included, from any source; moments and gradients become 0. What other shards
// hold of the compute weights is left to who gathers them. Returns the fingerprints of what this rank owns.
Fingerprints load_weights_from(TensorReader&, ParamStore&, Ops&);

}  // namespace fp
