// Box: a part of a tensor, contiguous in every dimension.
#pragma once

#include "base/shape.h"

namespace fp {

struct Box {
  Shape start;  // index of its first element in the tensor
  Shape count;  // its own shape
};

}  // namespace fp
