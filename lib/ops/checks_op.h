// Building blocks of the checks in checks.h.
#pragma once

#include <string>

#include "ops/ops.h"

namespace fp::checks {

inline std::string describe(const Tensor& t) {
  return t ? fmt::format("{} {}", name_of(t.dtype), t.shape.str()) : std::string("empty");
}

// Checks on the tensors of the op `name`, with which every message starts. Each throws InternalError.
struct Op {
  const char* name;

  // Any number of dimensions: all but the last count as rows.
  void matrix(const char* what, const Tensor& t, DType dtype, int64_t rows, int64_t cols) const {
    FP_CHECK(t && t.dtype == dtype && t.shape.rank() >= 1 && t.cols() == cols && t.shape.elements() == rows * cols,
             "{}: {} is {}, expected {} [{},{}]", name, what, describe(t), name_of(dtype), rows, cols);
  }
  void exactly(const char* what, const Tensor& t, DType dtype, const Shape& shape) const {
    FP_CHECK(t && t.dtype == dtype && t.shape == shape, "{}: {} is {}, expected {} {}", name, what, describe(t),
             name_of(dtype), shape.str());
  }
  void count(const char* what, const Tensor& t, DType dtype, int64_t elements) const {
    FP_CHECK(t && t.dtype == dtype && t.shape.elements() == elements, "{}: {} is {}, expected {} with {} elements",
             name, what, describe(t), name_of(dtype), elements);
  }
  void same(const char* what, const Tensor& t, const Tensor& model) const {
    matrix(what, t, model.dtype, model.rows(), model.cols());
  }
  // The tensor is f32 or bf16 and has at least one column.
  void compute(const char* what, const Tensor& t) const {
    FP_CHECK(t && (t.dtype == DType::f32 || t.dtype == DType::bf16) && t.shape.rank() >= 1 && t.cols() > 0,
             "{}: {} is {}, expected fp32 or bf16 with at least one column", name, what, describe(t));
  }
  void rank(const char* what, const Tensor& t, int expected) const {
    FP_CHECK(t && t.shape.rank() == expected, "{}: {} is {}, expected {} dimensions", name, what, describe(t),
             expected);
  }
  void empty(const char* what, const Tensor& t, const char* because) const {
    FP_CHECK(!t, "{}: {} is {}, expected empty {}", name, what, describe(t), because);
  }
  void drop(const Dropout& d, const Tensor& sample_ids, int64_t batch) const {
    FP_CHECK(d.p >= 0.0 && d.p < 1.0, "{}: dropout p is {}, expected [0,1)", name, d.p);
    if (d.p > 0.0 || sample_ids) exactly("sample_ids", sample_ids, DType::i32, {batch, 2});
  }
};

}  // namespace fp::checks
