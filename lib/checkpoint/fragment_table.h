// Reads and writes index.bin of a checkpoint: a flat list of numbers that locates every fragment of every tensor in the
// rank files. It holds the same information as index.h5, but no library is needed to parse it
// (docs/checkpoint-format.md has its layout).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/stored_fragment.h"

namespace fp {

// Returns the exact bytes of index.bin.
std::string serialize_fragments(const std::vector<IndexedParam>&);

// A parsed index.bin. Its parameters are those of the manifest, in the same order, with the same shapes and states.
class FragmentTable {
 public:
  // Parses `content`, read from the file `where`. Throws DataError unless it is exactly one table of these parameters.
  FragmentTable(std::string_view content, const std::vector<CheckpointParam>& parameters, const std::string& where);
  // Reads and checks a checkpoint's index.bin. Throws DataError as above, or when its size or hash differs from the
  // manifest's.
  static FragmentTable read(const std::filesystem::path& folder, const CheckpointManifest&);

  // Returns the fragments of a tensor. Throws DataError when the table does not have it, or a number is out of range.
  // The caller must check that they make up the tensor (tiling_error).
  std::vector<StoredFragment> fragments(const CheckpointParam&, const std::string& state) const;

 private:
  // Position of a tensor's rows in numbers_.
  struct Rows {
    size_t first = 0, count = 0;
  };
  class Parser;

  std::string where_;
  std::vector<uint64_t> numbers_;
  std::unordered_map<std::string, std::vector<Rows>> rows_;  // by parameter; of each of its states, in their order
};

}  // namespace fp
