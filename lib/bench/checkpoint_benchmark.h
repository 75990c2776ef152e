// Measures how fast checkpoints are saved and loaded on a folder's disk, relative to plain files of the same size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp {

// Seconds and ratios are medians of several rounds. Before reading, the kernel is asked to drop the files from its
// cache.
struct CheckpointRates {
  int64_t bytes = 0;  // total size of the checkpoint's files
  // The time of a save or load, and the time to write (including fsync) or read a plain file of the same size in the
  // same round.
  struct BesidePlain {
    double seconds = 0, plain_seconds = 0;
    double of_plain = 0;  // its rate divided by the plain file's
  };
  BesidePlain save;  // until the checkpoint is visible
  BesidePlain load;  // on the mesh that saved it, all fingerprints compared
  struct Other {
    std::string mesh;
    double seconds = 0;       // of a load
    double of_same_mesh = 0;  // seconds, divided by those of a load on the mesh that saved
  };
  std::vector<Other> others;  // loads on other meshes
  std::string mesh;           // that saved the checkpoint
};

// Saves and loads a model whose parameters and moments take about `bytes` bytes. The ranks of the mesh are threads of
// this process. Everything is removed at the end. Throws DataError when the folder cannot be written to.
CheckpointRates benchmark_checkpoint(const std::filesystem::path& folder, int64_t bytes, Ops&);

}  // namespace fp
