// UpdateSums: collects the sums that an optimizer update computes of the gradients it reads and the state it writes,
// subgroup by subgroup.
#pragma once

#include <vector>

#include "exec/replicas.h"
#include "exec/state_stream.h"
#include "model/env.h"

namespace fp {

class UpdateSums {
 public:
  // Takes 8 bytes of the arena for each of most_parts() and slot, and 8 more, with `state`, and 8 with `gradients`; as
  // much of the host's arena if the stream uses the host. Outlives the stream's work, which writes into it; its
  // functions need the subgroups and the stream.
  UpdateSums(const ModelEnv&, const std::vector<Subgroup>&, const StateStream&, bool state, bool gradients);

  // Returns the tensors into which the update of subgroup i, with its parts as ranges, writes its sums: in the memory
  // of its place.
  UpdateChecksums of_subgroup(size_t i) const;
  // After the update of all subgroups: return the sum of each unit's gradient, and the sums of the state (`rounded`: of
  // the rounded weights too; `matrices`: of the matrices of layers too).
  std::vector<double> gradients() const;
  StateSums state(bool rounded, bool matrices) const;

 private:
  // Sums that are computed on the device, and those that are computed on the host.
  struct Rows {
    ArenaTensor device, host;
  };
  Rows allocate(DType, const Shape&) const;
  // Returns the values of all rows, each from the memory where it was computed.
  template <class T>
  std::vector<T> read(const Rows&) const;

  const ModelEnv* env_;
  int64_t rows_;  // one for each slot of the parameter that has most, and one for the rounded weights
  const std::vector<Subgroup>* subgroups_;
  const StateStream* stream_;
  std::vector<int64_t> first_;  // by subgroup: row of its first part; last: number of rows
  Rows bits_;                   // i32 [parts,rows,2]; the rows of a part are those of its own slots
  Rows sums_;                   // f32 [parts,2]
};

}  // namespace fp
