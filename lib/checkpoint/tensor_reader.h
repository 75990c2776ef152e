// Interface for reading boxes of logical tensors, from a checkpoint or from another program's files.
#pragma once

#include <string>

#include "checkpoint/fragments.h"

namespace fp {

class TensorReader {
 public:
  virtual ~TensorReader() = default;
  // Reads a box of a parameter's logical tensor into host memory, as fp32. Throws DataError when it cannot be read.
  virtual void read(const std::string& param, const std::string& state, const Box&, float* data, const h5::Window&) = 0;
};

// Loads the weights of a store, including the compute weights; moments and gradients become 0. Compute weights that
// other shards hold are not set: gathering them is left to the caller. Returns the fingerprints of what this rank owns.
Fingerprints load_weights_from(TensorReader&, ParamStore&, Ops&);

}  // namespace fp
