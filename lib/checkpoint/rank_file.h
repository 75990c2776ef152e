// The HDF5 file that one rank writes in a save, and the sources of its values.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "checkpoint/fragments.h"
#include "checkpoint/hdf5.h"
#include "checkpoint/manifest.h"
#include "checkpoint/stored_fragment.h"
#include "checkpoint/tensor_reader.h"
#include "model/param_store.h"

namespace fp {

// The unit in which state passes through host memory: a box of one state of one parameter.
struct StateBlock {
  ParamId id;
  int slot;
  Fragment fragment;
  DType dtype;  // of the slot
};

// Provides the blocks of a rank's file, in the file's order (for_each_block).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual bool has(ParamId, int slot) const = 0;
  // Returns the block's values as fp32, densely packed and valid until the next call.
  virtual const float* read(const StateBlock&) = 0;
};

// Calls `visit` for every block of the state that the rank with this shard saves, in the order of the rank file. `has`
// selects the slots of a parameter.
void for_each_block(const ParamTable&, int shard, const std::function<bool(ParamId, int slot)>& has,
                    const std::function<void(const StateBlock&)>& visit);

// Return the blocks of a store, or of tensors that a reader provides. Both keep references to their arguments.
std::unique_ptr<BlockSource> blocks_of(const ParamStore&, Ops&);
std::unique_ptr<BlockSource> blocks_of(const ParamTable&, TensorReader&);

// A fragment that was written into the rank file.
struct WrittenPart {
  ParamId id = 0;
  int slot = kParamSlot;
  int number = 0;      // among the file's fragments of this state of this parameter
  Box box;             // in the logical tensor
  int64_t offset = 0;  // in the file, in bytes
  uint64_t fingerprint = 0;
};

// Record of what a rank has written: the only thing that ranks exchange in a save.
struct RankFile {
  int rank = 0;
  CheckpointFile file;
  std::vector<WrittenPart> parts;
};
std::string to_text(const RankFile&);
RankFile rank_file_from(const std::string& text);

// A rank's file that is still open for reading: the very file that was written, read back and synced, even if its path
// now names another one.
struct OpenRankFile {
  RankFile record;
  FileDescriptor file;
};
// Writes and syncs a rank's file into `file`, which must be new and empty. Throws DataError as below.
OpenRankFile write_rank_file(h5::File file, const ParamTable&, BlockSource&, int rank);

// Writes and syncs `folder`/rank-NNNNN.h5. Throws DataError when that fails, or when the file, read back, does not hold
// what was in memory (read_back.h).
RankFile write_rank_file(const std::filesystem::path& folder, const ParamTable&, BlockSource&, int rank);
RankFile write_rank_file(const std::filesystem::path& folder, const ParamStore&, Ops&, int rank);

}  // namespace fp
