// Locates every tensor of a checkpoint: reads index.bin and verifies it against the manifest and the rank files. This
// is the only code that takes file offsets from a checkpoint of unknown origin.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fragment_table.h"
#include "checkpoint/hdf5.h"

namespace fp {

// Thrown for a checkpoint that may be intact, but was saved by a version that did not write index.bin.
struct OlderFormatError : ConfigError {
  explicit OlderFormatError(const std::filesystem::path& checkpoint);
};

class FragmentIndex {
 public:
  // Must not outlive the checkpoint. Throws DataError when index.bin is invalid, and OlderFormatError when there is
  // none and HDF5 is not allowed to read index.h5 instead.
  explicit FragmentIndex(const Checkpoint&);

  // Returns the fragments of a tensor. Throws DataError unless they lie inside rank files of the manifest and together
  // hold each element exactly once.
  std::vector<StoredFragment> fragments(const CheckpointParam&, const std::string& state) const;

 private:
  std::vector<StoredFragment> fragments_by_hdf5(const CheckpointParam&, const std::string& state) const;
  void require_inside_files(const std::vector<StoredFragment>&, const std::string& tensor, DType) const;

  const Checkpoint& checkpoint_;
  std::map<int, uint64_t> bytes_;  // sizes of the rank files, by rank
  std::optional<FragmentTable> table_;
  mutable std::optional<h5::File> index_;  // used where there is no table
};

}  // namespace fp
