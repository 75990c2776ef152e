#include "ops/checks.h"
#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {

void RefOps::dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t first_token,
                     const Dropout& spec) {
  checks::dropout(y, x, sample_ids, spec);
  const int64_t B = x.shape[0], T = x.shape[1], C = x.shape[2];
  const Philox::Key key = dropout_key(spec);
  ref::Values Y = ref::load(x);
  if (spec.p > 0.0)
    for (int64_t b = 0; b < B; ++b) {
      const ref::SampleId sample = ref::sample_id(sample_ids, b);
      for (int64_t t = 0; t < T; ++t)
        for (int64_t c = 0; c < C; ++c)
          Y[(b * T + t) * C + c] *= dropout_factor(spec, key, static_cast<uint32_t>(c),
                                                   static_cast<uint32_t>(first_token + t), sample.low, sample.high);
    }
  ref::store(y, Y);
}

}  // namespace fp
