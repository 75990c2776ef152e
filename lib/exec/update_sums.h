// UpdateSums: collects the sums that an optimizer update computes of the gradients it reads and the state it writes,
// piece by piece.
#pragma once

#include <vector>

#include "exec/replicas.h"
#include "exec/state_stream.h"
#include "model/env.h"

namespace fp {

class UpdateSums {
 public:
  // Takes 8 bytes of the arena for each of most_parts() and slot, and 8 more, with `state`, and 8 with `gradients`. The
  // pieces must outlive it.
  UpdateSums(const ModelEnv&, const std::vector<StatePiece>& pieces, bool state, bool gradients);

  // Returns the tensors into which the update of piece i, with its parts as ranges, writes its sums.
  UpdateChecksums of_piece(size_t i) const;
  // After the update of all pieces: return the sum of each unit's gradient, and the sums of the state (`rounded`: of
  // the rounded weights too; `matrices`: of the matrices of layers too).
  std::vector<double> gradients() const;
  StateSums state(bool rounded, bool matrices) const;

 private:
  const ModelEnv* env_;
  int64_t rows_;  // one for each slot of the parameter that has most, and one for the rounded weights
  const std::vector<StatePiece>* pieces_;
  std::vector<int64_t> first_;  // by piece: row of its first part; last: number of rows
  ArenaTensor bits_;            // i32 [parts,rows,2]; the rows of a part are those of its own slots
  ArenaTensor sums_;            // f32 [parts,2]
};

}  // namespace fp
