// A tensor that lies in one or more parts, read as if it lay in one piece.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/hdf5.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

// A shape in error messages, such as [768,64].
std::string text_of(const std::vector<int64_t>& shape);

struct StoredPart {
  const TensorFiles* files = nullptr;
  const StoredTensor* tensor = nullptr;
  std::string name() const { return files->path(tensor->file).filename().string(); }
};

// `count` indices of a dimension, from `begin` on, are those of a part from `at` on.
struct Slice {
  int64_t begin = 0, count = 0;
  size_t part = 0;
  int64_t at = 0;

  bool operator==(const Slice&) const = default;
};

// Equal fragments of a dimension: what it is made of, of these relative lengths (empty: it is one), is cut for `parts`
// each. Ascending by `begin`. Empty when something does not divide.
std::vector<Slice> fragments_of(int64_t extent, const std::vector<int64_t>& ratios, size_t parts);

class Assembly {
 public:
  // DataError with what is wrong when the parts do not make up the tensor: their number, shapes or element types.
  Assembly(StoredAs, std::vector<StoredPart>);

  const StoredAs& as() const { return as_; }

  // A box of the logical tensor, its transform undone.
  void read(const h5::Box&, float* data, const h5::Window&);
  // DataError where the parts of a replicated tensor are not the same, bit for bit.
  void require_equal_parts() const;

 private:
  [[noreturn]] void refuse(const StoredPart&, const std::string& what) const;
  void check_types() const;
  void cut_into_fragments();
  void stack_rows();
  bool fragment_fits(int dim, const StoredPart&) const;
  int64_t columns_of(const StoredTensor& t) const { return t.shape.size() == 2 ? t.shape[1] : 1; }

  // Rows [row, row + rows) of columns [column, column + columns) as stored, to rows `step` apart.
  void read_stored(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step);
  void read_part(const StoredPart&, int64_t row, int64_t rows, int64_t column, int64_t columns, float* out,
                 int64_t step);
  void read_mean(int64_t row, int64_t rows, int64_t column, int64_t columns, float* out, int64_t step);
  void read_elements(const StoredPart&, int64_t index, std::span<float> out);

  StoredAs as_;
  std::vector<StoredPart> parts_;
  int cut_ = 0;                // the dimension of the slices
  std::vector<Slice> slices_;  // of fragments and vocabularies
  std::vector<std::byte> raw_;
  std::vector<float> values_;
};

// Whether two tensors have the same logical values, bit for bit.
bool equal_values(Assembly& a, Assembly& b);

}  // namespace fp
