// From a run spec to what the model and the executor are built from.
#pragma once

#include "config/run_spec.h"
#include "exec/executor.h"
#include "model/model.h"

namespace fp {

DType compute_type(const PrecisionSection&);
Recompute recompute_policy(const MemorySection&);

// The model section with `vocab` filled in from the tokenizer where the spec leaves it open.
ModelSection with_vocab(const ModelSection&, int64_t tokenizer_vocab);

ModelOptions model_options(const RunSpec&);
ExecutorOptions executor_options(const RunSpec&);

// "llama 4 layers x 256, 8 heads (2 kv), ffn 688, vocabulary 4096".
std::string describe_model(const ModelSection&);

}  // namespace fp
