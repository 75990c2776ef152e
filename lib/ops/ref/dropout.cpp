#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

void RefOps::run(const calls::Dropout& call) {
  const int64_t B = call.x.shape[0], T = call.x.shape[1], C = call.x.shape[2];
  const Philox::Key key = dropout_key(call.stream);
  ref::Values Y = ref::load(call.x);
  if (call.stream.p > 0.0)
    for (int64_t b = 0; b < B; ++b) {
      const ref::SampleId sample = ref::sample_id(call.sample_ids, b);
      for (int64_t t = 0; t < T; ++t)
        for (int64_t c = 0; c < C; ++c)
          Y[(b * T + t) * C + c] *=
              dropout_factor(call.stream, key, static_cast<uint32_t>(c), static_cast<uint32_t>(call.first_token + t),
                             sample.low, sample.high);
    }
  ref::store(call.y, Y);
}

}  // namespace fp
