// Reads a checkpoint's tensors straight out of the rank files. The index says where their parts lie; HDF5's virtual
// datasets, which it describes, give the same numbers at a fraction of the speed.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace fp {

class FragmentReader : public TensorReader {
 public:
  // Must not outlive the checkpoint.
  explicit FragmentReader(const Checkpoint&);
  void read(const std::string& param, StateKind, const h5::Box&, float* data, const h5::Window&) override;

 private:
  struct Part {
    h5::Mapping where;
    int64_t rows_end = 0;  // the furthest row, exclusive, of this part and those before it
    int64_t offset = -1;   // in its file; -1: not looked up yet
  };
  struct OpenFile {
    std::string name;
    h5::File file;
  };
  void look_up(const std::string& param, StateKind);
  const h5::File& open(const std::string& name);
  void read_part(Part&, const h5::Box&, float* data, const h5::Window&);

  const Checkpoint& checkpoint_;
  h5::File index_;
  std::string tensor_;  // whose parts these are
  Shape shape_;
  std::vector<Part> parts_;   // by first row
  std::list<OpenFile> open_;  // the last one used first
  std::vector<float> rows_;   // scratch
};

}  // namespace fp
