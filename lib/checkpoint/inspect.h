// Looking into checkpoints: every tensor is read through the index in its logical shape, a few MiB at a time, as a
// loading run would read it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

struct TensorStats {
  int64_t elements = 0, nonfinite = 0;
  // Over the finite elements; min and max are NaN when there are none.
  double norm = 0, mean = 0, min = 0, max = 0;
};
TensorStats tensor_stats(const Checkpoint&, const std::string& param, StateKind);

// The first elements in row-major order, at most `count`.
std::vector<float> first_elements(const Checkpoint&, const std::string& param, StateKind, int64_t count);

// Where the parts of a tensor are stored.
std::vector<StoredFragment> fragments_of(const Checkpoint&, const std::string& param, StateKind);

// Reads all tensors and compares their fingerprints with the manifest's: beyond the hashes of the files, this proves
// that the index leads to the right elements. DataError naming the tensors that differ.
void verify_tensors(const Checkpoint&);

struct TensorDifference {
  std::string param;
  StateKind kind = StateKind::param;
  int64_t elements = 0, differing = 0;  // differing: in any bit
  double max_abs = 0;                   // largest difference; infinite when one of a pair is not finite
};

struct CheckpointDifference {
  std::vector<std::string> structure;     // parameters or moments that only one has, or in another shape
  std::vector<TensorDifference> tensors;  // those that differ
  std::vector<std::string> state;         // step, consumed samples, last loss
  std::vector<std::string> notes;         // what may differ between equal states: extra, config, tokenizer, mesh
  int64_t compared = 0;                   // tensors that both have
  bool identical() const { return structure.empty() && tensors.empty() && state.empty(); }
};
CheckpointDifference compare(const Checkpoint& a, const Checkpoint& b);

}  // namespace fp
