// The reference backend, the oracle of the tests: every op as plain loops in double, rounded once when stored. One file
// per family of ops.
#pragma once

#include <vector>

#include "ops/ops.h"

namespace fp {

class RefOps : public Ops {
 public:
  std::string_view name() const override { return "ref"; }

 protected:
  FP_UNFUSED_OPS(FP_RUN_OP)
};

}  // namespace fp
