// How fast checkpoints go to a folder's disk and come back, against plain files of the same size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Seconds, each the median of several rounds; of reading after the kernel was asked to forget the files.
struct CheckpointRates {
  int64_t bytes = 0;       // of the checkpoint's files
  double plain_write = 0;  // of as many bytes, until fsync is done
  double plain_read = 0;
  double save = 0;  // until the checkpoint is visible
  double load = 0;  // on the mesh that saved it, every byte verified first
  struct Other {
    std::string mesh;
    double load = 0;
  };
  std::vector<Other> others;
  std::string mesh;  // that saved it
};

// A model whose parameters and moments take about so many bytes is saved and loaded by the ranks of a mesh, as threads
// of this process. Everything is removed in the end. DataError when the folder cannot be written to.
CheckpointRates benchmark_checkpoint(const std::filesystem::path& folder, int64_t bytes, Ops&);

}  // namespace fp
