// Building blocks of check() and cost() of calls.
#pragma once

#include <string>

#include "ops/calls/call.h"
#include "ops/draws.h"

namespace fp::calls {

inline std::string describe(const Tensor& t) {
  return t ? fmt::format("{} {}", name_of(t.dtype), t.shape.str()) : std::string("empty");
}

// Checks on the tensors of a call, with the name of whose op every message starts. Each throws InternalError.
struct Checks {
  std::string_view name;

  template <class Call>
  explicit Checks(const Call& call) : name(op_name(call)) {}

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
  void drop(const fp::Dropout& d, const Tensor& sample_ids, int64_t batch) const {
    FP_CHECK(d.p >= 0.0 && d.p < 1.0, "{}: dropout p is {}, expected [0,1)", name, d.p);
    if (d.p > 0.0 || sample_ids) exactly("sample_ids", sample_ids, DType::i32, {batch, 2});
  }
};

template <class... Tensors>
double bytes_of(const Tensors&... tensors) {
  return (0.0 + ... + static_cast<double>(tensors.bytes()));
}

// A destination that is added to is also read.
inline double bytes_written(const Tensor& t, Write write) { return bytes_of(t) * (write == Write::add ? 2 : 1); }

inline double count_of(const Tensor& t) { return static_cast<double>(t.elements()); }

template <class Call>
OpWork work(const Call& call, DType computed, double flops, double bytes) {
  return {op_name(call), flops, bytes, 0, 0, 0, computed};
}

}  // namespace fp::calls
