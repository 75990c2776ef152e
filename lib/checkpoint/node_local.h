// Writes a rank's file to the node's local disk before it is copied to the run directory (`checkpoint.node_local`).
// Other users may be able to write to that disk's folder.
//
// The file has a name only until it is open, in a folder that only this user may enter (io/private_folder.h): no one
// can find it there, and a killed run leaves nothing large behind. It is written, read back and copied through one file
// descriptor.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/rank_file.h"

namespace fp {

class NodeLocal {
 public:
  // For rank `rank` of `ranks` of the run that saves into `checkpoints`. Tests whether a folder can be created in
  // `base`, and removes what killed starts of the same rank have left on this host. Throws ConfigError when `base` is
  // not a folder or its file system does not store owners and modes, and DataError when nothing can be created there.
  NodeLocal(const std::filesystem::path& base, const std::filesystem::path& checkpoints, int rank, int ranks);

  // Same as fp::write_rank_file() into `folder`, but through this disk. Also throws DataError when the copy, read back,
  // differs from the original.
  RankFile write_rank_file(const std::filesystem::path& folder, const ParamTable&, BlockSource&, int rank) const;

 private:
  std::filesystem::path base_;
  std::string prefix_;  // of the names of the folders in base_
};

}  // namespace fp
