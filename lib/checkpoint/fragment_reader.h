// Reads a checkpoint's tensors directly from the rank files, at the offsets in index.bin. HDF5's virtual datasets give
// the same values at a fraction of the speed, and HDF5, which may crash on damaged files, is not used at all.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fragment_index.h"
#include "io/readable_file.h"

namespace fp {

class FragmentReader : public TensorReader {
 public:
  // Must not outlive the checkpoint. Throws the same errors as FragmentIndex.
  explicit FragmentReader(const Checkpoint&);
  void read(const std::string& param, const std::string& state, const Box&, float* data, const h5::Window&) override;
  // Returns the manifest's entry of a parameter. Throws DataError when the checkpoint does not have it.
  const CheckpointParam& parameter(const std::string& name) const;
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const FragmentIndex& index() const { return index_; }

 private:
  struct Part {
    StoredFragment where;
    int64_t rows_end = 0;  // one past the last row of this part and all before it
  };
  struct RankFileReader {
    RankFileReader(int of, const std::filesystem::path& path) : rank(of), bytes(path, Symlinks::refuse) {}
    int rank;
    ReadableFile bytes;
  };
  void look_up(const std::string& param, const std::string& state);
  const ReadableFile& open(int rank);
  void read_part(const Part&, const Box&, float* data, const h5::Window&);

  const Checkpoint& checkpoint_;
  FragmentIndex index_;
  std::string tensor_;  // the tensor that shape_, dtype_ and parts_ describe
  Shape shape_;
  DType dtype_ = DType::f32;
  std::vector<Part> parts_;         // ordered by first row
  std::list<RankFileReader> open_;  // most recently used first
};

}  // namespace fp
