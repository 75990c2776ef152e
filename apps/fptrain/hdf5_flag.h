// The flag --hdf5 of commands that read checkpoints.
#pragma once

#include "checkpoint/checkpoint.h"
#include "command_line.h"

namespace fp {

// Lets HDF5 parse the files of a checkpoint. Without the flag it does not, since malicious files may exploit bugs in
// the HDF5 library.
class Hdf5Flag {
 public:
  // Adds the flag to a command. The object must stay at its address until the command line has been read.
  void add_to(cli::App& command, const char* description =
                                     "let HDF5 read checkpoints of older versions, which have no index.bin; use "
                                     "it only for files that you trust, as HDF5 parses them") {
    command.add_flag("--hdf5", given_, description);
  }
  // Applies the flag. Call before a checkpoint is read.
  void apply() const {
    if (given_) allow_hdf5_for_all();
  }
  bool given() const { return given_; }

 private:
  bool given_ = false;
};

}  // namespace fp
