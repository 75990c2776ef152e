// How fast checkpoints go to a folder's disk and come back, against plain files of the same size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Seconds and ratios are medians of several rounds; reading follows after the kernel was asked to forget the files.
struct CheckpointRates {
  int64_t bytes = 0;  // of the checkpoint's files
  // Something beside the same bytes as a plain file, written until fsync is done or read, in each round.
  struct BesidePlain {
    double seconds = 0, plain_seconds = 0;
    double of_plain = 0;  // its rate over the plain one's
  };
  BesidePlain save;  // until the checkpoint is visible
  BesidePlain load;  // on the mesh that saved it, all fingerprints compared
  struct Other {
    std::string mesh;
    double seconds = 0;       // of a load
    double of_same_mesh = 0;  // that, over a load on the mesh that saved
  };
  std::vector<Other> others;
  std::string mesh;  // that saved it
};

// A model whose parameters and moments take about so many bytes is saved and loaded by the ranks of a mesh, as threads
// of this process. Everything is removed in the end. DataError when the folder cannot be written to.
CheckpointRates benchmark_checkpoint(const std::filesystem::path& folder, int64_t bytes, Ops&);

}  // namespace fp
