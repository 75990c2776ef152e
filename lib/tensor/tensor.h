// Tensor: a non-owning, contiguous, row-major view of memory. Copying it copies the view, never the data. Ops work on
// tensors in device memory only; those in host memory are moved by asynchronous copies (ops/copies.h).
// In a dry run (counting ops) the address lies in a virtual arena and must not be dereferenced.
#pragma once

#include <algorithm>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace fp {

// Where memory lies. Where the device is the host, both are host memory, and the distinction is kept all the same.
enum class Residence : uint8_t { device, host };
constexpr const char* name_of(Residence r) { return r == Residence::device ? "device" : "host"; }

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Residence residence = Residence::device;
  Shape shape;

  Tensor() = default;
  Tensor(void* d, DType t, const Shape& s, Residence r = Residence::device)
      : data(d), dtype(t), residence(r), shape(s) {}

  explicit operator bool() const { return data != nullptr; }
  int64_t elements() const { return data == nullptr ? 0 : shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }

  // Size as a matrix: the last dimension is the columns, the product of all others the rows.
  int64_t cols() const { return shape[shape.rank() - 1]; }
  int64_t rows() const { return shape.elements() / cols(); }

  // Typed address; the dtype must match.
  template <class T>
  T* ptr() const {
    FP_CHECK(dtype == dtype_of<T>::value, "tensor holds {}, asked for {}", name_of(dtype), name_of(dtype_of<T>::value));
    return static_cast<T*>(data);
  }

  // Returns a view of the same data with another shape of as many elements.
  Tensor reshaped(const Shape& s) const {
    FP_CHECK(s.elements() == shape.elements(), "cannot view {} as {}", shape.str(), s.str());
    return {data, dtype, s, residence};
  }
  // Returns a view of `count` entries of the first dimension, from `first` on.
  Tensor slice(int64_t first, int64_t count) const {
    FP_CHECK(first >= 0 && count >= 0 && first + count <= shape[0], "slice [{}, {}) of {}", first, first + count,
             shape.str());
    Tensor t = *this;
    t.shape[0] = count;
    t.data = static_cast<char*>(data) +
             static_cast<size_t>(first * (shape.elements() / std::max<int64_t>(shape[0], 1))) * size_of(dtype);
    return t;
  }
};

}  // namespace fp
