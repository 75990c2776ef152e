// Writes and reads index.h5 of a checkpoint: each tensor as one virtual dataset, for HDF5's own readers, and the table
// of its fragments, which older versions read before index.bin was introduced (fragment_table.h).
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/hdf5.h"
#include "checkpoint/stored_fragment.h"

namespace fp {

// Writes and syncs the file, and returns its name, size and hash. Throws InternalError when the fragments of a tensor
// overlap or leave something out, and DataError when writing fails or the tables, read back, differ from those written.
CheckpointFile write_index(const std::filesystem::path& file, const std::vector<IndexedParam>& parameters);

// The following functions let HDF5 parse the file: use them only for checkpoints from trusted sources
// (Checkpoint::allow_hdf5).

// Opens index.h5 or a rank file. Throws DataError when it is missing or a symbolic link.
h5::File open_hdf5(const std::filesystem::path& file);

// Returns the fragments of a tensor of the index, which must have this shape. The oldest indexes have no tables; for
// those, the rank files beside the index give the offsets. The caller must check that the fragments make up the tensor
// (tiling_error).
std::vector<StoredFragment> read_fragments(const h5::File& index, const CheckpointParam& param,
                                           const std::string& state);

// Returns the fragments that HDF5 itself would read for a tensor, without their offsets. Throws DataError when the
// dataset is not virtual, has another shape or type, or maps anything but fragments in rank files beside it.
std::vector<StoredFragment> mapped_fragments(const h5::File& index, const CheckpointParam& param,
                                             const std::string& state);

// Returns the offset of a fragment in its rank file as HDF5 reports it. Throws DataError when the fragment is not a
// contiguous dataset of this shape and of the state's type there.
int64_t offset_of(const h5::File& rank_file, const CheckpointParam& param, const std::string& state,
                  const StoredFragment&);

}  // namespace fp
