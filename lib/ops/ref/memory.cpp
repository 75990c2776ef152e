#include <cstring>

#include "ops/backends.h"
#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

void RefOps::copy_in(const Tensor& dst, const void* host) { std::memcpy(dst.data, host, dst.bytes()); }

void RefOps::copy_out(void* host, const Tensor& src) { std::memcpy(host, src.data, src.bytes()); }

void RefOps::copy(const Tensor& dst, const Tensor& src) {
  checks::copy(dst, src);
  std::memmove(dst.data, src.data, src.bytes());
}

void RefOps::zero(const Tensor& x) { std::memset(x.data, 0, x.bytes()); }

void RefOps::cast(const Tensor& dst, const Tensor& src) {
  checks::cast(dst, src);
  ref::store(dst, ref::load(src));
}

// Element by element: computes the index in x of each element of y from its indices.
void RefOps::permute(const Tensor& y, const Tensor& x, std::span<const int> order) {
  checks::permute(y, x, order);
  const int rank = x.shape.rank();
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  auto* to = static_cast<std::byte*>(y.data);
  const auto* source = static_cast<const std::byte*>(x.data);
  for (int64_t at = 0; at < y.elements(); ++at) {
    int64_t rest = at, from = 0;
    for (int i = rank - 1; i >= 0; --i) {
      int64_t stride = 1;
      for (int j = order[static_cast<size_t>(i)] + 1; j < rank; ++j) stride *= x.shape[j];
      from += rest % y.shape[i] * stride;
      rest /= y.shape[i];
    }
    std::memcpy(to + at * size, source + from * size, static_cast<size_t>(size));
  }
}

void RefOps::copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count,
                          Write write) {
  checks::copy_columns(y, y_first, x, x_first, count);
  const ref::Values X = ref::load(x);
  ref::Values Y = ref::load(y);
  for (int64_t m = 0; m < y.rows(); ++m)
    for (int64_t c = 0; c < count; ++c) {
      double& to = Y[m * y.cols() + y_first + c];
      const double from = X[m * x.cols() + x_first + c];
      to = write == Write::add ? to + from : from;
    }
  ref::store(y, Y);
}

void RefOps::round_stochastically(const Tensor& dst, const Tensor& src, const StochasticRounding& r) {
  checks::round_stochastically(dst, src);
  const Philox::Key key = rounding_key(r);
  for (int64_t i = 0; i < src.elements(); ++i)
    dst.ptr<bf16>()[i] = rounded_up_by(src.ptr<float>()[i], rounding_words(r, key, static_cast<uint64_t>(i) / 8),
                                       static_cast<unsigned>(i % 8));
}

void RefOps::find_nonfinite(const Tensor& first, const Tensor& x) {
  checks::find_nonfinite(first, x);
  const ref::Values X = ref::load(x);
  for (int64_t r = 0; r < x.rows(); ++r) {
    int32_t& found = first.ptr<int32_t>()[r] = -1;
    for (int64_t c = x.cols() - 1; c >= 0; --c)
      if (!std::isfinite(X[r * x.cols() + c])) found = static_cast<int32_t>(c);
  }
}

}  // namespace fp
