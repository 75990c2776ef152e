#include "data/sampling/batch.h"

namespace fp {

void Batch::resize(int64_t samples, int64_t length, int64_t rows_of_each) {
  rows_per_sample = rows_of_each;
  n = samples * rows_of_each;
  seq_len = length;
  const auto tokens_in_batch = static_cast<size_t>(n * length);
  for (auto* values : {&tokens, &targets, &positions, &doc_start}) values->resize(tokens_in_batch);
  sample_ids.resize(static_cast<size_t>(n));
  reference_logp.clear();
  target_bytes = 0;
}

}  // namespace fp
