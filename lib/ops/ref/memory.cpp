#include <cstring>

#include "ops/backends.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

void RefOps::run(const calls::CopyIn& call) { std::memcpy(call.dst.data, call.host, call.dst.bytes()); }

void RefOps::run(const calls::CopyOut& call) { std::memcpy(call.host, call.src.data, call.src.bytes()); }

void RefOps::run(const calls::Copy& call) { std::memmove(call.dst.data, call.src.data, call.src.bytes()); }

void RefOps::run(const calls::Zero& call) { std::memset(call.x.data, 0, call.x.bytes()); }

void RefOps::run(const calls::Cast& call) { ref::store(call.dst, ref::load(call.src)); }

// Element by element: computes the index in x of each element of y from its indices.
void RefOps::run(const calls::Permute& call) {
  const int rank = call.x.shape.rank();
  const auto size = static_cast<int64_t>(size_of(call.x.dtype));
  auto* to = static_cast<std::byte*>(call.y.data);
  const auto* source = static_cast<const std::byte*>(call.x.data);
  for (int64_t at = 0; at < call.y.elements(); ++at) {
    int64_t rest = at, from = 0;
    for (int i = rank - 1; i >= 0; --i) {
      int64_t stride = 1;
      for (int j = call.order[static_cast<size_t>(i)] + 1; j < rank; ++j) stride *= call.x.shape[j];
      from += rest % call.y.shape[i] * stride;
      rest /= call.y.shape[i];
    }
    std::memcpy(to + at * size, source + from * size, static_cast<size_t>(size));
  }
}

void RefOps::run(const calls::CopyColumns& call) {
  const ref::Values X = ref::load(call.x);
  ref::Values Y = ref::load(call.y);
  for (int64_t m = 0; m < call.y.rows(); ++m)
    for (int64_t c = 0; c < call.count; ++c) {
      double& to = Y[m * call.y.cols() + call.y_first + c];
      const double from = X[m * call.x.cols() + call.x_first + c];
      to = call.write == Write::add ? to + from : from;
    }
  ref::store(call.y, Y);
}

void RefOps::run(const calls::RoundStochastically& call) {
  const Philox::Key key = rounding_key(call.rounding);
  for (int64_t i = 0; i < call.src.elements(); ++i)
    call.dst.ptr<bf16>()[i] =
        rounded_up_by(call.src.ptr<float>()[i], rounding_words(call.rounding, key, static_cast<uint64_t>(i) / 8),
                      static_cast<unsigned>(i % 8));
}

void RefOps::run(const calls::FindNonfinite& call) {
  const ref::Values X = ref::load(call.x);
  for (int64_t r = 0; r < call.x.rows(); ++r) {
    int32_t& found = call.first.ptr<int32_t>()[r] = -1;
    for (int64_t c = call.x.cols() - 1; c >= 0; --c)
      if (!std::isfinite(X[r * call.x.cols() + c])) found = static_cast<int32_t>(c);
  }
}

}  // namespace fp
