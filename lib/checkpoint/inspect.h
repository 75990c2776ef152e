// Inspects and compares checkpoints. Every tensor is read in its logical shape, a few MiB at a time, by the same code
// that a loading run uses.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fragment_reader.h"

namespace fp {

struct TensorStats {
  int64_t elements = 0, nonfinite = 0;
  // Over the finite elements; min and max are NaN when there are none.
  double norm = 0, mean = 0, min = 0, max = 0;
};
TensorStats tensor_stats(FragmentReader&, const std::string& param, const std::string& state);

// Returns the first elements in row-major order, at most `count`.
std::vector<float> first_elements(FragmentReader&, const std::string& param, const std::string& state, int64_t count);

// Reads all tensors and compares their fingerprints with the manifest's: beyond the hashes of the files, this proves
// that index.bin leads to the right elements. Throws DataError naming the tensors that differ.
void verify_tensors(const Checkpoint&);
// Does the same comparison with a caller's `read`, which reads a box of a tensor. Returns one line for each tensor that
// differs; empty when none does.
using ReadTensor =
    std::function<void(const CheckpointParam&, const std::string& state, const Box&, float* data, const h5::Window&)>;
std::string differing_tensors(const Checkpoint&, const ReadTensor& read);

struct TensorDifference {
  std::string param;
  std::string state;
  int64_t elements = 0, differing = 0;  // differing: elements that differ in any bit
  double max_abs = 0;                   // largest difference; infinite when either element is not finite
};

struct CheckpointDifference {
  std::vector<std::string> structure;     // parameters or states that only one has, or whose shapes differ
  std::vector<TensorDifference> tensors;  // those that differ
  std::vector<std::string> state;         // step, consumed samples, last loss
  std::vector<std::string> notes;         // differences that equal states may have: extra, config, tokenizer, mesh
  int64_t compared = 0;                   // tensors that both have
  bool identical() const { return structure.empty() && tensors.empty() && state.empty(); }
};
CheckpointDifference compare(const Checkpoint& a, const Checkpoint& b);

}  // namespace fp
