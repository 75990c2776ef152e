// The file that one rank writes in a save, and where its numbers come from.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/fragments.h"
#include "checkpoint/index.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_reader.h"
#include "model/param_store.h"

namespace fp {

// What a rank file holds of one kind of one parameter that passes through host memory at a time: a dense box of it.
struct StateBlock {
  ParamId id;
  StateKind kind;
  Fragment fragment;
};

// Gives the blocks of a rank's file, in the file's order (for_each_block).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual bool has(StateKind) const = 0;
  // The block's numbers, valid until the next call.
  virtual const float* read(const StateBlock&) = 0;
};

// All blocks of what a rank answers for, in the order in which a rank file takes them.
void for_each_block(const ParamTable&, const std::function<bool(StateKind)>& has,
                    const std::function<void(const StateBlock&)>& visit);

// Out of a store, or of tensors that are stored elsewhere; both are kept references to.
std::unique_ptr<BlockSource> blocks_of(const ParamStore&, Ops&);
std::unique_ptr<BlockSource> blocks_of(const ParamTable&, TensorReader&);

// A fragment as it lies in the file.
struct WrittenPart {
  ParamId id = 0;
  StateKind kind = StateKind::param;
  int number = 0;  // of those of this kind of this parameter
  h5::Box box;     // of the logical tensor
  int64_t offset = 0;
  uint64_t fingerprint = 0;
};

// What a rank has written, which is all that has to pass between ranks in a save.
struct RankFile {
  int rank = 0;
  CheckpointFile file;
  std::vector<WrittenPart> parts;
};
std::string to_text(const RankFile&);
RankFile rank_file_from(const std::string& text);

// Writes and syncs `folder`/rank-NNNNN.h5. DataError when that fails, or when the file, read back, does not hold what
// was in memory (read_back.h).
RankFile write_rank_file(const std::filesystem::path& folder, const ParamTable&, BlockSource&, int rank);
RankFile write_rank_file(const std::filesystem::path& folder, const ParamStore&, Ops&, int rank);

}  // namespace fp
