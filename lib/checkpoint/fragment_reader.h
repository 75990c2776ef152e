// Reads a checkpoint's tensors straight out of the rank files, at the places that the index names. HDF5's virtual
// datasets, which it describes, give the same numbers at a fraction of the speed; and HDF5, which may fall over damaged
// files, gets to see the index alone (but where that has no tables, as at first).
#pragma once

#include <list>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"
#include "checkpoint/raw_bytes.h"

namespace fp {

class FragmentReader : public TensorReader {
 public:
  // Must not outlive the checkpoint.
  explicit FragmentReader(const Checkpoint&);
  void read(const std::string& param, StateKind, const h5::Box&, float* data, const h5::Window&) override;

 private:
  struct Part {
    StoredFragment where;
    int64_t rows_end = 0;  // the furthest row, exclusive, of this part and those before it
  };
  struct OpenFile {
    OpenFile(int of, const std::filesystem::path& path) : rank(of), bytes(path) {}
    int rank;
    RawReader bytes;
  };
  void look_up(const std::string& param, StateKind);
  const RawReader& open(int rank);
  void read_part(Part&, const h5::Box&, float* data, const h5::Window&);

  const Checkpoint& checkpoint_;
  h5::File index_;
  std::string tensor_;  // whose parts these are
  Shape shape_;
  std::vector<Part> parts_;   // by first row
  std::list<OpenFile> open_;  // the last one used first
};

}  // namespace fp
