// UpdateSums: collects the sums that an optimizer update computes of the gradients it reads and the state it writes,
// unit by unit.
#pragma once

#include <vector>

#include "exec/replicas.h"
#include "model/env.h"

namespace fp {

class UpdateSums {
 public:
  // Takes 8 bytes of the arena for each parameter and slot, and 8 more, with `state`, and 8 with `gradients`.
  UpdateSums(const ModelEnv&, bool state, bool gradients);

  // Returns the tensors into which the update of a unit, with ranges ParamStore::kept(), writes its sums.
  UpdateChecksums of_unit(int unit) const;
  // After the update of all units: return the sum of each unit's gradient, and the sums of the state (`rounded`: of the
  // rounded weights too).
  std::vector<double> gradients() const;
  StateSums state(bool rounded) const;

 private:
  const ModelEnv* env_;
  int64_t rows_;  // one for each slot, and one for the rounded weights
  std::vector<ParamPart> parts_;
  std::vector<int64_t> ends_;  // by unit: end of its parts in parts_
  ArenaTensor bits_;           // i32 [parts,rows,2]
  ArenaTensor sums_;           // f32 [parts,2]
};

}  // namespace fp
