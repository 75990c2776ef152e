#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {

void CpuOps::run(const calls::RoundStochastically& call) {
  const Philox::Key key = rounding_key(call.rounding);
  const int64_t count = call.src.elements();
  bf16* to = call.dst.ptr<bf16>();
  const float* from = call.src.ptr<float>();
  parallel_for((count + 7) / 8, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t eight = begin; eight < end; ++eight) {
      const auto words = rounding_words(call.rounding, key, static_cast<uint64_t>(eight));
      const int64_t last = std::min(count, eight * 8 + 8);
      for (int64_t i = eight * 8; i < last; ++i) to[i] = rounded_up_by(from[i], words, static_cast<unsigned>(i % 8));
    }
  });
}

}  // namespace fp
