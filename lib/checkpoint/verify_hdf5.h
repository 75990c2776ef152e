// Verifies that index.h5 of a checkpoint leads HDF5's own readers to what was saved.
#pragma once

#include "checkpoint/checkpoint.h"

namespace fp {

// Lets HDF5 parse index.h5 and the rank files: use it only for checkpoints from trusted sources. Throws DataError when
// their HDF5 metadata differs from index.bin, naming the first difference, or when HDF5 reads other tensors than were
// saved, naming them.
void verify_with_hdf5(const Checkpoint&);

}  // namespace fp
