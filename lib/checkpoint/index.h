// index.h5 of a checkpoint: each tensor as one virtual dataset for HDF5's readers, and for fptrain's own a table that
// says in which files its fragments lie and where.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5.h"
#include "checkpoint/manifest.h"

namespace fp {

// A box of a tensor that a rank has stored, tightly packed.
struct StoredFragment {
  int rank = 0;         // in whose file
  int number = 0;       // of those of this kind of this parameter there
  h5::Box box;          // of the logical tensor
  int64_t offset = -1;  // in the file, in bytes; -1: the index does not say
};

std::string rank_file_name(int rank);                                              // "rank-00003.h5"
std::string dataset_name(const std::string& param, StateKind kind);                // "model.norm.weight/exp_avg"
std::string dataset_name(const std::string& param, StateKind kind, int fragment);  // "model.norm.weight/exp_avg/0"

struct IndexedParam {
  CheckpointParam param;
  std::map<StateKind, std::vector<StoredFragment>> fragments;
};
// Writes and syncs it; its size and hash. InternalError when the fragments of a tensor leave something out or overlap;
// DataError when writing fails or the tables, read back, are not those that were written.
CheckpointFile write_index(const std::filesystem::path& file, const std::vector<IndexedParam>& parameters);

// Of a tensor of the index, which must have this shape.
std::vector<StoredFragment> read_fragments(const h5::File& index, const CheckpointParam& param, StateKind kind);

}  // namespace fp
