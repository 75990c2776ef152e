// Reads a tensor that is stored in one or more parts as if it were stored in one piece.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/hdf5.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

// Formats a shape for error messages, such as [768,64].
std::string text_of(const std::vector<int64_t>& shape);

struct StoredPart {
  const TensorFiles* files = nullptr;
  const StoredTensor* tensor = nullptr;
  std::string name() const { return files->path(tensor->file).filename().string(); }
};

// Indices [begin, begin + count) of a dimension of the tensor are indices [at, at + count) of part `part`.
struct Slice {
  int64_t begin = 0, count = 0;
  size_t part = 0;
  int64_t at = 0;

  bool operator==(const Slice&) const = default;
};

// Splits a dimension of length `extent` into equal fragments for `parts` parts. The dimension consists of sections of
// the relative lengths `ratios` (empty: one section), and each section is split separately. Returns the slices in
// ascending order of `begin`; none when something is not divisible.
std::vector<Slice> fragments_of(int64_t extent, const std::vector<int64_t>& ratios, size_t parts);

class Assembly {
 public:
  // Throws DataError with the problem when the parts do not form the tensor: their number, shapes or element types.
  Assembly(StoredAs, std::vector<StoredPart>);

  const StoredAs& as() const { return as_; }

  // Reads a box of the logical tensor, with its transform undone, into a window of `data`.
  void read(const Box&, float* data, const h5::Window&);
  // Throws DataError when the parts of a replicated tensor differ in any bit.
  void require_equal_parts() const;

 private:
  [[noreturn]] void refuse(const StoredPart&, const std::string& what) const;
  void check_types() const;
  void cut_into_fragments();
  void stack_rows();
  bool fragment_fits(int dim, const StoredPart&) const;
  int64_t columns_of(const StoredTensor& t) const { return t.shape.size() == 2 ? t.shape[1] : 1; }

  // Reads rows [row, row + rows) of columns [column, column + columns) as stored, into rows `step` elements apart.
  void read_stored(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step);
  void read_part(const StoredPart&, int64_t row, int64_t rows, int64_t column, int64_t columns, float* out,
                 int64_t step);
  void read_mean(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step);
  void read_elements(const StoredPart&, int64_t index, std::span<float> out);

  StoredAs as_;
  std::vector<StoredPart> parts_;
  int cut_ = 0;                // the dimension that is split
  std::vector<Slice> slices_;  // only for fragments and vocabularies
  std::vector<std::byte> raw_;
  std::vector<float> values_;
};

// Returns whether two tensors have the same logical values, bit for bit.
bool equal_values(Assembly& a, Assembly& b);

}  // namespace fp
