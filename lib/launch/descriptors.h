// How many files and connections this process may have open.
#pragma once

namespace fp {

// From now on as many as the administrator allows, not as few as shells and batch systems begin with: with many ranks
// each needs connections to others beside its files.
void allow_all_descriptors();

}  // namespace fp
