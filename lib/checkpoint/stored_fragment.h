// Locations of a tensor's fragments in the rank files of a checkpoint, and the check that they make up the tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"

namespace fp {

// A box of a tensor that a rank has stored, densely packed.
struct StoredFragment {
  int rank = 0;        // whose file holds it
  int number = 0;      // among that file's fragments of this state of this parameter
  Box box;             // in the logical tensor
  int64_t offset = 0;  // in the file, in bytes
};

struct IndexedParam {
  CheckpointParam param;
  std::vector<std::vector<StoredFragment>> fragments;  // of each of its states, in their order
};

std::string rank_file_name(int rank);                         // "rank-00003.h5"
std::optional<int> rank_of_file(std::string_view file_name);  // nullopt for any other name

std::string dataset_name(const std::string& param, const std::string& state);  // "model.norm.weight/exp_avg"
std::string dataset_name(const std::string& param, const std::string& state,
                         int fragment);  // "model.norm.weight/exp_avg/0"

// Encodes fragments as rows of integers, one row each: rank, number, offset, then the box's start and count, one
// integer per dimension.
std::vector<uint64_t> rows_of(const std::vector<StoredFragment>&);
constexpr size_t row_length(int dimensions) { return 3 + 2 * static_cast<size_t>(dimensions); }
// Decodes such rows. Throws DataError, beginning with `where`, when they are not whole rows or a number is out of
// range.
std::vector<StoredFragment> fragments_in(std::span<const uint64_t> rows, int dimensions, const std::string& where);

// Returns why these fragments do not hold each element of a tensor of this shape exactly once; empty when they do.
// `shape` must be one that a manifest may have.
std::string tiling_error(const Shape& shape, const std::vector<StoredFragment>&);

}  // namespace fp
