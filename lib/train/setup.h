// From a run spec to what the model and the executor are built from.
#pragma once

#include "config/run_spec.h"
#include "exec/executor.h"
#include "model/model.h"

namespace fp {

DType compute_type(const PrecisionSection&);

// The model section with `vocab` filled in from the tokenizer where the spec leaves it open.
ModelSection with_vocab(const ModelSection&, int64_t tokenizer_vocab);

// Of a whole model, on one rank.
ModelOptions model_options(const RunSpec&);
ExecutorOptions executor_options(const RunSpec&);
// Of a rank of a pipeline: what it holds of the model, and the plan of its steps.
ModelOptions model_options(const RunSpec&, const PipelinePlan&, int pipeline_rank);
ExecutorOptions executor_options(const RunSpec&, const PipelinePlan&);

// The numbers of micro-batches that the steps of a run have, of each data-parallel rank: one, or those of a ramp.
std::vector<int> step_sizes(const TrainSection&, int data_ranks);

// "llama 4 layers x 256, 8 heads (2 kv), ffn 688, vocabulary 4096".
std::string describe_model(const ModelSection&);

}  // namespace fp
